//! Enables and disables modules and apps for the whole deployment.

pub(crate) mod enabling;
pub(crate) mod http;
mod rules;
pub(crate) mod store;

use service::AuditEvent;

use rules::Standing;

fn event(action: &'static str, standing: &Standing, payload: serde_json::Value) -> AuditEvent {
    let subject = format!("{}:{}", standing.kind, standing.key);
    AuditEvent { company: None, action, subject, payload }
}
