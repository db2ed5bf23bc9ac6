//! The shape of `AuthzGrantsRequest`.

use contract::Subject;
use contract::decision::{MAX_NAME, ObjectRef};
use contract::fields::{Fields, FromBody, Text};
use contract::fragment;
pub(super) use contract::grants::{MAX_TUPLES, Op};
use contract::id::{CompanyId, parse_uuid};

use crate::decision::canonical;
use crate::engine::facts::SubjectRef;

/// One relation on one object for one subject, with ids in the form that tuples use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Tuple {
    pub(super) object: ObjectRef,
    pub(super) relation: String,
    pub(super) subject: SubjectRef,
}

/// The body of a grants request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GrantsRequest {
    pub(super) op: Op,
    pub(super) company: CompanyId,
    /// Replaces the header's correlation id in the audit row.
    pub(super) correlation: Option<String>,
    pub(super) tuples: Vec<Tuple>,
}

impl FromBody for GrantsRequest {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let op = fields.word("op", &[("grant", Op::Grant), ("revoke", Op::Revoke)]);
        let company = fields.uuid("companyId");
        let correlation = fields.optional_text("correlationId", Text::line(MAX_NAME));
        let tuples = tuples(fields);
        Some(Self { op: op?, company: company?, correlation: correlation?, tuples: tuples? })
    }
}

/// The body of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LookupRequest {
    pub(super) tuples: Vec<Tuple>,
}

impl FromBody for LookupRequest {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { tuples: tuples(fields)? })
    }
}

/// Parses one to [`MAX_TUPLES`] tuples.
pub(super) fn tuples(fields: &mut Fields<'_>) -> Option<Vec<Tuple>> {
    let tuples = fields.objects("tuples", MAX_TUPLES);
    if tuples.as_ref().is_some_and(Vec::is_empty) {
        return fields.refuse("tuples", "length", "at least one tuple");
    }
    tuples
}

impl FromBody for Tuple {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let name = Text::line(fragment::MAX_NAME);
        let object_type = fields.text("objectType", name);
        let object_id = fields.text("objectId", Text::line(MAX_NAME));
        let relation = fields.text("relation", name);
        let subject_type = fields.text("subjectType", name);
        let subject_id = fields.text("subjectId", Text::line(Subject::MAX_LENGTH));
        let subject_relation = subject_relation(fields, name);
        let object = canonical(&ObjectRef { kind: object_type?, id: object_id? });
        let subject = subject(subject_type?, subject_id?, subject_relation?);
        Some(Self { object, relation: relation?, subject })
    }
}

/// Parses the subject relation; absent, `null` and empty mean the subject itself.
fn subject_relation(fields: &mut Fields<'_>, rule: Text) -> Option<String> {
    let name = "subjectRelation";
    match fields.raw(name).and_then(serde_json::Value::as_str) {
        Some("") => Some(String::new()),
        _ => fields.optional_text(name, rule).map(Option::unwrap_or_default),
    }
}

fn subject(kind: String, id: String, relation: String) -> SubjectRef {
    let id = match kind.as_str() {
        "position" | "group" => parse_uuid(&id).map_or(id, |uuid| uuid.to_string()),
        "company_module" => canonical(&ObjectRef { kind: kind.clone(), id }).id,
        _ => id,
    };
    SubjectRef { kind, id, relation }
}
