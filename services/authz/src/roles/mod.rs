//! The platform role: the tuple that is authoritative, the ledger of its history, and the guard row that protects the
//! last holder who can act. Granting and revoking lock the guard first, as do grants of tuples that depend on the role;
//! identity locks the same row before it suspends a subject.

pub mod http;
mod rules;
pub mod start;
mod store;

pub(crate) use store::lock_guard;

use contract::decision::SUPERADMIN;
use serde_json::json;
use service::AuditEvent;

/// A change of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Granted,
    Revoked,
}

impl Change {
    /// The word that the ledger stores.
    const fn word(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Revoked => "revoked",
        }
    }

    fn event(self, subject: &str) -> AuditEvent {
        let (action, from, to) = match self {
            Self::Granted => ("platform_role.granted", None, Some(SUPERADMIN)),
            Self::Revoked => ("platform_role.revoked", Some(SUPERADMIN), None),
        };
        let payload = json!({ "role": { "from": from, "to": to } });
        AuditEvent { company: None, action, subject: format!("user:{subject}"), payload }
    }
}
