//! Checks which tuples can be granted according to the model alone: the object's type belongs to a module, the type has
//! the relation, and the relation takes this kind of subject. Pure; `anchors.rs` later checks whether objects and
//! subjects belong to the company.

use contract::FieldProblem;
use contract::fragment::{ANCHOR, is_base_type};
use contract::grants::{ANCHOR_RELATION, SYSTEM_ID, SYSTEM_RELATION};
use contract::id::{CompanyId, parse_uuid};
use uuid::Uuid;

use super::request::{Op, Tuple};
use crate::engine::facts::company_module;
use crate::engine::{Known, Model};

/// A tuple that can be granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sorted {
    /// The module or app that the object belongs to.
    pub(super) module: String,
    /// The company of a `company_module` object; `None` for a module's own object.
    pub(super) tier_of: Option<CompanyId>,
    pub(super) grantee: Grantee,
}

/// The kind of subject that a tuple names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grantee {
    User,
    Position(Uuid),
    Group(Uuid),
    /// A module in a company: the tuple is the object's anchor.
    Anchor,
    /// An object of the same module, reached over a tupleset.
    Object,
    /// The default tuple that lets operators in.
    System,
}

impl Grantee {
    pub(super) const fn position(self) -> Option<Uuid> {
        if let Self::Position(id) = self { Some(id) } else { None }
    }

    pub(super) const fn group(self) -> Option<Uuid> {
        if let Self::Group(id) = self { Some(id) } else { None }
    }
}

/// Classifies every tuple, or returns a problem for each that cannot be granted.
pub(super) fn sort_all(model: &Model, op: Op, tuples: &[Tuple]) -> Result<Vec<Sorted>, Vec<FieldProblem>> {
    let mut sorted = Vec::with_capacity(tuples.len());
    let mut problems = Vec::new();
    for (index, tuple) in tuples.iter().enumerate() {
        match sort(model, op, tuple) {
            Ok(one) => sorted.push(one),
            Err(Misfit(field, rule, message)) => problems.push(problem(index, field, rule, message)),
        }
    }
    if problems.is_empty() { Ok(sorted) } else { Err(problems) }
}

/// A problem with one field of one tuple.
pub(super) fn problem(
    index: usize,
    field: &str,
    rule: &'static str,
    message: impl Into<String>,
) -> FieldProblem {
    FieldProblem::new(format!("tuples[{index}].{field}"), rule, message)
}

/// Field, rule, and what is expected.
struct Misfit(&'static str, &'static str, String);

fn misfit<T>(field: &'static str, rule: &'static str, message: impl Into<String>) -> Result<T, Misfit> {
    Err(Misfit(field, rule, message.into()))
}

fn sort(model: &Model, op: Op, tuple: &Tuple) -> Result<Sorted, Misfit> {
    let kind = tuple.object.kind.as_str();
    if kind == ANCHOR {
        return sort_tier(model, op, tuple);
    }
    if is_base_type(kind) {
        return misfit("objectType", "base_type", "a type that a module declares, or company_module");
    }
    let Some(owner) = model.owner(kind) else {
        return misfit("objectType", "unknown", "a type that an enabled module declares");
    };
    knows_relation(model, tuple)?;
    let grantee = grantee(model, op, owner, tuple)?;
    Ok(Sorted { module: owner.to_owned(), tier_of: None, grantee })
}

fn sort_tier(model: &Model, op: Op, tuple: &Tuple) -> Result<Sorted, Misfit> {
    let Some((company, key)) = company_module(&tuple.object.id) else {
        return misfit("objectId", "format", "<companyId>/<moduleKey>");
    };
    knows_relation(model, tuple)?;
    let grantee = match tuple.relation.as_str() {
        ANCHOR_RELATION => return misfit("relation", "default", "the platform keeps this tuple itself"),
        SYSTEM_RELATION => system(op, tuple)?,
        _ => match holder(tuple)? {
            Some(grantee) => grantee,
            None => return misfit("subjectType", "enum", "one of user, position, group"),
        },
    };
    Ok(Sorted { module: key.to_owned(), tier_of: Some(company), grantee })
}

/// The default tuple can be revoked here; only the operator's command restores it.
fn system(op: Op, tuple: &Tuple) -> Result<Grantee, Misfit> {
    let subject = &tuple.subject;
    let default = subject.kind == "system" && subject.id == SYSTEM_ID && subject.relation.is_empty();
    match op {
        Op::Revoke if default => Ok(Grantee::System),
        Op::Revoke => misfit("subjectType", "default", "system:platform"),
        Op::Grant => misfit("relation", "default", "the platform keeps this tuple itself"),
    }
}

fn knows_relation(model: &Model, tuple: &Tuple) -> Result<(), Misfit> {
    match model.knows(&tuple.object.kind, &tuple.relation) {
        Known::Yes => Ok(()),
        Known::NoType | Known::NoRelation => misfit("relation", "unknown", "a relation of the object's type"),
    }
}

fn grantee(model: &Model, op: Op, owner: &str, tuple: &Tuple) -> Result<Grantee, Misfit> {
    let (kind, subject) = (tuple.object.kind.as_str(), &tuple.subject);
    let plain_module = subject.kind == ANCHOR && subject.relation.is_empty();
    match (tuple.relation == ANCHOR, plain_module) {
        (true, true) => return Ok(Grantee::Anchor),
        (true, false) => return misfit("subjectType", "anchor", "company_module"),
        (false, _) => {}
    }
    if let Some(grantee) = holder(tuple)? {
        // A tuple that no rule of the model looks at has no effect, so it cannot be granted; it can still be revoked.
        if op == Op::Grant && !model.is_direct(kind, &tuple.relation) {
            return misfit("relation", "direct", "a relation that can be held directly");
        }
        return Ok(grantee);
    }
    if model.owner(&subject.kind) != Some(owner) {
        return misfit("subjectType", "enum", "user, position, group, or a type of the same module");
    }
    if !subject.relation.is_empty() {
        return misfit("subjectRelation", "absent", "none: the tuple leads to the object itself");
    }
    if !model.is_tupleset(kind, &tuple.relation) {
        return misfit("relation", "tupleset", "a relation that a tupleToUserset follows");
    }
    Ok(Grantee::Object)
}

/// A person, directly or through org; `None` for any other kind of subject.
fn holder(tuple: &Tuple) -> Result<Option<Grantee>, Misfit> {
    let subject = &tuple.subject;
    let expected = match subject.kind.as_str() {
        "user" => "",
        "position" => "holder",
        "group" => "member",
        _ => return Ok(None),
    };
    if subject.relation != expected {
        let message = if expected.is_empty() { "none" } else { expected };
        return misfit("subjectRelation", "fixed", message);
    }
    let id = || parse_uuid(&subject.id).map_or_else(|| misfit("subjectId", "uuid", "a UUID"), Ok);
    match expected {
        "holder" => id().map(|id| Some(Grantee::Position(id))),
        "member" => id().map(|id| Some(Grantee::Group(id))),
        _ => Ok(Some(Grantee::User)),
    }
}
