//! Checks that everything a request names belongs to its company: module objects by their anchor, which exists already
//! or is part of the request, positions and groups according to org. Pure; the rows are read under the locks of the
//! writing transaction, so that no anchor appears or disappears until it ends.

use std::collections::{BTreeMap, BTreeSet};

use contract::FieldProblem;
use contract::decision::ObjectRef;
use contract::grants::company_module_id;
use contract::id::CompanyId;
use uuid::Uuid;

use super::request::Tuple;
use super::types::{Grantee, Sorted, problem};

/// Type and id of an object.
pub(super) type Key = (String, String);

/// What the database knows about the objects and subjects of a request.
#[derive(Clone, Debug, Default)]
pub(super) struct Belongings {
    /// Ids of the `company_module` objects that each object is anchored to.
    pub(super) anchors: BTreeMap<Key, BTreeSet<String>>,
    /// Positions and groups that belong to the company.
    pub(super) units: BTreeSet<Uuid>,
}

/// Returns all problems of all tuples.
pub(super) fn problems(
    company: CompanyId,
    tuples: &[Tuple],
    sorted: &[Sorted],
    mut known: Belongings,
) -> Vec<FieldProblem> {
    for (tuple, sort) in tuples.iter().zip(sorted) {
        if sort.grantee == Grantee::Anchor {
            known.anchors.entry(key(&tuple.object)).or_default().insert(tuple.subject.id.clone());
        }
    }
    let each = tuples.iter().zip(sorted).enumerate();
    each.filter_map(|(index, (tuple, sort))| check(index, company, tuple, sort, &known)).collect()
}

/// The objects whose anchors must be read.
pub(super) fn anchored(tuples: &[Tuple], sorted: &[Sorted]) -> BTreeSet<Key> {
    let of_tuple = |(tuple, sort): (&Tuple, &Sorted)| {
        let object = sort.tier_of.is_none().then(|| key(&tuple.object));
        let subject = (sort.grantee == Grantee::Object).then(|| subject_key(tuple));
        [object, subject]
    };
    tuples.iter().zip(sorted).flat_map(of_tuple).flatten().collect()
}

/// Type and id of an object.
pub(super) fn key(object: &ObjectRef) -> Key {
    (object.kind.clone(), object.id.clone())
}

fn subject_key(tuple: &Tuple) -> Key {
    (tuple.subject.kind.clone(), tuple.subject.id.clone())
}

fn check(
    index: usize,
    company: CompanyId,
    tuple: &Tuple,
    sort: &Sorted,
    known: &Belongings,
) -> Option<FieldProblem> {
    let elsewhere = |field, what: &str| Some(problem(index, field, "anchor", format!("{what} {company}")));
    match sort.tier_of {
        Some(other) if other != company => return elsewhere("objectId", "a module of company"),
        None if !is_anchored(&key(&tuple.object), company, &sort.module, known) => {
            return elsewhere("objectId", "an object that is anchored to its module in company");
        }
        Some(_) | None => {}
    }
    match sort.grantee {
        Grantee::Position(id) if !known.units.contains(&id) => {
            elsewhere("subjectId", "a position of company")
        }
        Grantee::Group(id) if !known.units.contains(&id) => elsewhere("subjectId", "a group of company"),
        Grantee::Object if !is_anchored(&subject_key(tuple), company, &sort.module, known) => {
            elsewhere("subjectId", "an object that is anchored to its module in company")
        }
        Grantee::User
        | Grantee::Position(_)
        | Grantee::Group(_)
        | Grantee::Anchor
        | Grantee::Object
        | Grantee::System => None,
    }
}

/// Whether an object is anchored to its module in this company and to nothing else.
fn is_anchored(object: &Key, company: CompanyId, module: &str, known: &Belongings) -> bool {
    let own = company_module_id(company, module);
    known.anchors.get(object).is_some_and(|anchors| anchors.iter().all(|anchor| *anchor == own))
}
