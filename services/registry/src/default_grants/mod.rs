//! The default grants (module contract, "Default grants"): for every active company and everything that is installed
//! and enabled, the anchor, ensured on every pass, and the `system` tuple, written once per company and module and never
//! again, so that an operator can delete it. org writes the same pair for a new company.
//!
//! They are written for [`PORTION`] companies a transaction at most. Where there are no more, what needs them (an enabling, a
//! start) writes them in its own transaction; where there are, a worker writes portion after portion, and a module is enabled
//! when all have theirs (`enablement::enabling`).

pub(crate) mod store;

use serde_json::json;
use service::{ApiError, AuditEvent, AuditedTx};
use sqlx::PgConnection;
use uuid::Uuid;

/// Most companies that one transaction writes grants for: 2,000 tuples take some 0.1 s, and authz applies them in one round.
pub(crate) const PORTION: usize = 1_000;

/// How many tuples were written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) anchors: u64,
    pub(crate) system: u64,
}

impl Written {
    pub(crate) const fn is_nothing(self) -> bool {
        self.anchors == 0 && self.system == 0
    }

    /// Says so in the audit of `subject`.
    pub(crate) async fn record(self, tx: &mut AuditedTx, subject: String) -> Result<(), ApiError> {
        let payload = json!({ "anchors": self.anchors, "system": self.system });
        let action = "default_grants.written";
        tx.record(&AuditEvent { company: None, action, subject, payload }).await
    }
}

/// Active companies in the order of their ids.
#[derive(Debug)]
pub(crate) struct Portion {
    companies: Vec<Uuid>,
    /// No other company comes after these.
    pub(crate) is_last: bool,
}

impl Portion {
    /// The companies after `after`.
    pub(crate) async fn after(conn: &mut PgConnection, after: Uuid) -> sqlx::Result<Self> {
        let mut companies = store::companies_after(conn, after, PORTION + 1).await?;
        let is_last = companies.len() <= PORTION;
        companies.truncate(PORTION);
        Ok(Self { companies, is_last })
    }

    /// How many they are.
    pub(crate) fn len(&self) -> i64 {
        i64::try_from(self.companies.len()).unwrap_or(i64::MAX)
    }

    /// The last of them.
    pub(crate) fn end(&self) -> Option<Uuid> {
        self.companies.last().copied()
    }

    /// Ensures the grants of these companies for `keys`, of which only what is enabled, or on its way to be, gets any.
    pub(crate) async fn ensure(&self, conn: &mut PgConnection, keys: &[String]) -> sqlx::Result<Written> {
        let anchors = store::ensure_anchors(conn, keys, &self.companies).await?;
        let system = store::write_system_once(conn, keys, &self.companies).await?;
        Ok(Written { anchors, system })
    }
}
