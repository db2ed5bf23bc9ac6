//! What a manifest must be beside everything that is registered: pure. The store reads the [`Standing`] under the
//! catalog's lock, so that two registrations are judged one after the other.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use contract::FieldProblem;
use contract::fragment::{Relations, base_model, missing_targets};
use contract::manifest::version::compare;
use semver::Version;

use super::rules::{Checked, FRAGMENT};

/// What is registered, as far as it matters to one manifest.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    /// The app of this key, when there is one.
    pub(super) own: Option<Own>,
    /// Whether the key is a module's.
    pub(super) is_module: bool,
    /// The app that has this client, if it is another one.
    pub(super) client_owner: Option<String>,
    /// Owner of each object type that is not this app's.
    pub(super) type_owners: BTreeMap<String, String>,
    /// Owner of each feature key that is not this app's.
    pub(super) feature_owners: BTreeMap<String, String>,
    /// The relations of everything else that is installed: with the base types, the model that authz evaluates.
    pub(super) others: Vec<Relations>,
}

/// An app as it is registered.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub(super) version: Version,
    pub(super) enabled: bool,
    pub(super) client_id: String,
    pub(super) content_hash: Vec<u8>,
    pub(super) relations: Relations,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing: this version is registered with this content.
    Same,
    /// Write it.
    Write,
}

/// An object type, or one relation of it, that a new version leaves out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Removed {
    pub(super) object_type: String,
    /// `None`: the whole type.
    pub(super) relation: Option<String>,
}

impl Removed {
    pub(super) fn problem(&self) -> FieldProblem {
        let name = self
            .relation
            .as_ref()
            .map_or_else(|| self.object_type.clone(), |name| format!("{}.{name}", self.object_type));
        FieldProblem::new(format!("{FRAGMENT}.{name}"), "in_use", "cannot be removed while it has tuples")
    }
}

/// Judges a manifest.
pub(super) fn judge(checked: &Checked, standing: &Standing) -> Result<Verdict, Vec<FieldProblem>> {
    let mut problems = Vec::new();
    if standing.is_module {
        problems.push(FieldProblem::new("key", "reserved", "not the key of a module"));
    }
    if let Some(owner) = &standing.client_owner {
        problems.push(FieldProblem::new(
            "serviceClientId",
            "unique",
            format!("the client of app {owner} already"),
        ));
    }
    problems.extend(foreign_types(checked, standing));
    problems.extend(foreign_features(checked, standing));
    problems.extend(unreachable_targets(checked, standing));
    let verdict = judge_version(checked, standing.own.as_ref());
    match verdict {
        Ok(verdict) if problems.is_empty() => Ok(verdict),
        Ok(_) => Err(problems),
        Err(problem) => {
            problems.push(problem);
            Err(problems)
        }
    }
}

/// What the new version leaves out of the registered one.
pub(super) fn removed(checked: &Checked, standing: &Standing) -> Vec<Removed> {
    let mut removed = Vec::new();
    for (name, relations) in standing.own.iter().flat_map(|own| &own.relations) {
        let Some(kept) = checked.relations.get(name) else {
            removed.push(Removed { object_type: name.clone(), relation: None });
            continue;
        };
        let gone = relations.keys().filter(|relation| !kept.contains_key(*relation));
        removed.extend(
            gone.map(|relation| Removed { object_type: name.clone(), relation: Some(relation.clone()) }),
        );
    }
    removed
}

fn judge_version(checked: &Checked, own: Option<&Own>) -> Result<Verdict, FieldProblem> {
    let Some(own) = own else { return Ok(Verdict::Write) };
    match compare(&checked.version, &own.version) {
        Ordering::Greater => Ok(Verdict::Write),
        Ordering::Equal if checked.content_hash() == own.content_hash => Ok(Verdict::Same),
        Ordering::Equal => {
            let message =
                format!("higher than {}: this version is registered with other content", own.version);
            Err(FieldProblem::new("version", "content", message))
        }
        Ordering::Less => Err(FieldProblem::new("version", "lower", format!("higher than {}", own.version))),
    }
}

fn foreign_types(checked: &Checked, standing: &Standing) -> Vec<FieldProblem> {
    let owned = |name: &String| {
        let owner = standing.type_owners.get(name)?;
        Some(FieldProblem::new(format!("{FRAGMENT}.{name}"), "unique", format!("a type of {owner} already")))
    };
    checked.relations.keys().filter_map(owned).collect()
}

fn foreign_features(checked: &Checked, standing: &Standing) -> Vec<FieldProblem> {
    let owned = |name: &String| {
        let owner = standing.feature_owners.get(name)?;
        Some(FieldProblem::new("features", "unique", format!("\"{name}\" is a feature of {owner} already")))
    };
    checked.feature_keys().iter().filter_map(owned).collect()
}

fn unreachable_targets(checked: &Checked, standing: &Standing) -> Vec<FieldProblem> {
    let base = base_model();
    let model: Vec<&Relations> = standing.others.iter().chain([&base, &checked.relations]).collect();
    missing_targets(&checked.relations, FRAGMENT, &model)
}
