//! The rules of an app's manifest against everything that is registered. Pure. The store reads the [`Standing`] under
//! the catalog's lock, so that concurrent registrations are judged one after the other.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use contract::FieldProblem;
use contract::fragment::{Relations, base_model, missing_targets};
use contract::manifest::version::compare;
use semver::Version;

use super::rules::{Checked, FRAGMENT};

/// The registered state that matters to one manifest.
#[derive(Clone, Debug, Default)]
pub(super) struct Standing {
    /// The app with the same key, if any.
    pub(super) own: Option<Own>,
    /// Whether a module has the same key.
    pub(super) is_module: bool,
    /// The other app with the same client, if any.
    pub(super) client_owner: Option<String>,
    /// Owner of each declared object type that belongs to another module or app.
    pub(super) type_owners: BTreeMap<String, String>,
    /// Owner of each declared feature key that belongs to another module or app.
    pub(super) feature_owners: BTreeMap<String, String>,
    /// The relations of everything else that is installed. With the base types and the app's own relations, they form
    /// the model that authz evaluates.
    pub(super) others: Vec<Relations>,
}

/// The registered state of an app.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub(super) version: Version,
    pub(super) enabled: bool,
    pub(super) client_id: String,
    pub(super) content_hash: Vec<u8>,
    pub(super) relations: Relations,
}

/// The outcome of judging a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The version is already registered with the same content.
    Same,
    /// The manifest is to be written.
    Write,
}

/// An object type, or one of its relations, that a new version no longer has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Removed {
    pub(super) object_type: String,
    /// `None` for the whole type.
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
///
/// # Errors
/// Every rule that it breaks.
pub(super) fn judge(checked: &Checked, standing: &Standing) -> Result<Verdict, Vec<FieldProblem>> {
    let mut problems = Vec::new();
    if standing.is_module {
        problems.push(FieldProblem::new("key", "reserved", "not the key of a module"));
    }
    if let Some(owner) = &standing.client_owner {
        problems.push(FieldProblem::new(
            "serviceClientId",
            "unique",
            format!("already the client of app {owner}"),
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

/// Lists the object types and relations that the new version removes.
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
        Some(FieldProblem::new(format!("{FRAGMENT}.{name}"), "unique", format!("already a type of {owner}")))
    };
    checked.relations.keys().filter_map(owned).collect()
}

fn foreign_features(checked: &Checked, standing: &Standing) -> Vec<FieldProblem> {
    let owned = |name: &String| {
        let owner = standing.feature_owners.get(name)?;
        Some(FieldProblem::new("features", "unique", format!("\"{name}\" is already a feature of {owner}")))
    };
    checked.feature_keys().iter().filter_map(owned).collect()
}

fn unreachable_targets(checked: &Checked, standing: &Standing) -> Vec<FieldProblem> {
    let base = base_model();
    let model: Vec<&Relations> = standing.others.iter().chain([&base, &checked.relations]).collect();
    missing_targets(&checked.relations, FRAGMENT, &model)
}
