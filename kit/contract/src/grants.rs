//! Relation tuples as modules grant and revoke them (`POST /internal/authz/grants`), and the two tuples that make an
//! enabled module usable in a company (module contract, "Default grants").

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Subject;
use crate::decision::ObjectRef;
use crate::fragment::ANCHOR;
use crate::id::{CompanyId, GroupId, PositionId};

/// `company_module:<company>/<module>#company@company:<company>`: the anchor, ensured on every pass.
pub const ANCHOR_RELATION: &str = "company";
/// `company_module:<company>/<module>#system@system:platform`: written once, so that an operator can delete it.
pub const SYSTEM_RELATION: &str = "system";
/// The id of the only object of type `system`.
pub const SYSTEM_ID: &str = "platform";
/// Key of the PostgreSQL advisory lock that serialises company creation (shared) and enablement (exclusive).
pub const DEFAULT_GRANTS_LOCK: &str = "platform.default_grants";
/// Most tuples in one request (`decisions.md`, "Decisions and grants").
pub const MAX_TUPLES: usize = 1_000;

/// The id of the object that represents one module in one company.
#[must_use]
pub fn company_module_id(company: CompanyId, module_key: &str) -> String {
    format!("{company}/{module_key}")
}

/// The operation on a request's tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Adds the missing ones.
    Grant,
    /// Removes the existing ones.
    Revoke,
}

impl Op {
    /// `status` in the response.
    #[must_use]
    pub const fn status(self) -> &'static str {
        match self {
            Self::Grant => "granted",
            Self::Revoke => "revoked",
        }
    }
}

/// A relation on an object, held by a subject or by the holders of a relation on that subject.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tuple {
    /// Type of the object, such as `docs_document`.
    pub object_type: String,
    /// Its id.
    pub object_id: String,
    /// The relation, such as `viewer`.
    pub relation: String,
    /// `user`, `position`, `group`, or another type that the relation leads to.
    pub subject_type: String,
    /// Its id; for a user, the `kcSub`.
    pub subject_id: String,
    /// Empty for the subject itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject_relation: String,
}

impl Tuple {
    /// Held by one user.
    #[must_use]
    pub fn user(object: ObjectRef, relation: &str, subject: &Subject) -> Self {
        Self::held(object, relation, ("user", subject.to_string(), ""))
    }

    /// Held by the holder of a position.
    #[must_use]
    pub fn position(object: ObjectRef, relation: &str, position: PositionId) -> Self {
        Self::held(object, relation, ("position", position.to_string(), "holder"))
    }

    /// Held by the members of the group.
    #[must_use]
    pub fn group(object: ObjectRef, relation: &str, group: GroupId) -> Self {
        Self::held(object, relation, ("group", group.to_string(), "member"))
    }

    /// Ties an object to its module in a company; granted together with the object's first relation.
    #[must_use]
    pub fn anchor(object: ObjectRef, company: CompanyId, module_key: &str) -> Self {
        Self::held(object, ANCHOR, (ANCHOR, company_module_id(company, module_key), ""))
    }

    /// Leads to another object of the same module, for a relation that a `tupleToUserset` follows.
    #[must_use]
    pub fn object(object: ObjectRef, relation: &str, to: ObjectRef) -> Self {
        Self::held(object, relation, (&to.kind, to.id, ""))
    }

    fn held(object: ObjectRef, relation: &str, subject: (&str, String, &str)) -> Self {
        Self {
            object_type: object.kind,
            object_id: object.id,
            relation: relation.to_owned(),
            subject_type: subject.0.to_owned(),
            subject_id: subject.1,
            subject_relation: subject.2.to_owned(),
        }
    }
}

/// `type:id#relation@type:id[#relation]`
impl fmt::Display for Tuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object_type, object_id, relation, subject_type, subject_id, subject_relation } = self;
        write!(f, "{object_type}:{object_id}#{relation}@{subject_type}:{subject_id}")?;
        if subject_relation.is_empty() { Ok(()) } else { write!(f, "#{subject_relation}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_reads_as_audit_rows_write_it() {
        let company = CompanyId::mint();
        let deal = || ObjectRef { kind: "crm_deal".to_owned(), id: "1".to_owned() };
        let alice = Subject::parse("alice").expect("a subject");
        let (position, group) = (PositionId::mint(), GroupId::mint());
        for (tuple, text) in [
            (Tuple::user(deal(), "owner", &alice), "crm_deal:1#owner@user:alice".to_owned()),
            (
                Tuple::position(deal(), "viewer", position),
                format!("crm_deal:1#viewer@position:{position}#holder"),
            ),
            (Tuple::group(deal(), "viewer", group), format!("crm_deal:1#viewer@group:{group}#member")),
            (Tuple::object(deal(), "parent", deal()), "crm_deal:1#parent@crm_deal:1".to_owned()),
            (
                Tuple::anchor(deal(), company, "crm"),
                format!("crm_deal:1#company_module@company_module:{company}/crm"),
            ),
        ] {
            assert_eq!(tuple.to_string(), text);
        }
    }
}
