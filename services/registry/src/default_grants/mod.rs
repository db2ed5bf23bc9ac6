//! The default grants (module contract, "Default grants") of every enabled module and app in every active company: the
//! anchor, ensured on every pass, and the `system` tuple, written only once per company and module, so that an operator
//! can delete it. org writes the same pair for a new company.
//!
//! A transaction writes the grants of at most [`PORTION`] companies. If there are no more, enabling a module and the
//! start write the grants in their own transaction. If there are more, a worker writes them in portions and then
//! enables the module (`enablement::enabling`).

pub(crate) mod store;

use serde_json::json;
use service::{ApiError, AuditEvent, AuditedTx};
use sqlx::PgConnection;
use uuid::Uuid;

/// Maximum number of companies per transaction. Writing their 2,000 tuples takes about 0.1 s, and authz applies them in
/// one round.
pub(crate) const PORTION: usize = 1_000;

/// The number of tuples written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) anchors: u64,
    pub(crate) system: u64,
}

impl Written {
    pub(crate) const fn is_nothing(self) -> bool {
        self.anchors == 0 && self.system == 0
    }

    /// Records the numbers in an audit event of `subject`.
    pub(crate) async fn record(self, tx: &mut AuditedTx, subject: String) -> Result<(), ApiError> {
        let payload = json!({ "anchors": self.anchors, "system": self.system });
        let action = "default_grants.written";
        tx.record(&AuditEvent { company: None, action, subject, payload }).await
    }
}

/// A portion of the active companies, by id.
#[derive(Debug)]
pub(crate) struct Portion {
    companies: Vec<Uuid>,
    /// Whether no company comes after these.
    pub(crate) is_last: bool,
}

impl Portion {
    /// Reads the portion of companies after `after`.
    pub(crate) async fn after(conn: &mut PgConnection, after: Uuid) -> sqlx::Result<Self> {
        let mut companies = store::companies_after(conn, after, PORTION + 1).await?;
        let is_last = companies.len() <= PORTION;
        companies.truncate(PORTION);
        Ok(Self { companies, is_last })
    }

    /// The number of companies.
    pub(crate) fn len(&self) -> i64 {
        i64::try_from(self.companies.len()).unwrap_or(i64::MAX)
    }

    /// The last company.
    pub(crate) fn end(&self) -> Option<Uuid> {
        self.companies.last().copied()
    }

    /// Ensures the grants of these companies for those `keys` that are enabled or being enabled.
    pub(crate) async fn ensure(&self, conn: &mut PgConnection, keys: &[String]) -> sqlx::Result<Written> {
        let anchors = store::ensure_anchors(conn, keys, &self.companies).await?;
        let system = store::write_system_once(conn, keys, &self.companies).await?;
        Ok(Written { anchors, system })
    }
}
