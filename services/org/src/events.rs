//! Audit events of org.

use std::fmt::Display;

use contract::id::CompanyId;
use serde_json::{Map, Value};
use service::AuditEvent;

/// Builds the audit event of a change to one object; `payload` has the form of [`service::changes`].
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
