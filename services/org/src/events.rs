//! Audit rows of org: which company, which thing, which fields.

use std::fmt::Display;

use contract::id::CompanyId;
use serde_json::{Map, Value};
use service::AuditEvent;

/// The audit row of a change of one thing; `payload` as [`service::changes`] tells it.
pub(crate) fn event(
    company: CompanyId,
    action: &'static str,
    kind: &str,
    id: impl Display,
    payload: Map<String, Value>,
) -> AuditEvent {
    AuditEvent {
        company: Some(company),
        action,
        subject: format!("{kind}:{id}"),
        payload: Value::Object(payload),
    }
}
