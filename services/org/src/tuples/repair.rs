//! The start-up pass: compares the derived tuples with the rows and repairs what differs, a company at a time. Nothing
//! should ever differ, so every repair is logged and audited.

use std::time::Duration;

use contract::id::CompanyId;
use serde_json::json;
use service::readiness::ReadinessHold;
use service::workers::{Next, Pace, Step};
use service::{ApiError, AuditEvent, Core};

use super::store;

/// Actor of the audit rows.
const ACTOR: &str = "system:tuple-repair";
/// Between two tries while the database does not answer.
const RETRY: Duration = Duration::from_millis(500);

/// Runs [`once`] until it has succeeded; the service is not ready before.
pub(crate) fn start(core: &Core, hold: ReadinessHold) {
    let repair = Repair { core: core.for_workers(), hold: Some(hold) };
    core.workers.every("tuple_repair", Pace::every(RETRY), repair);
}

struct Repair {
    core: Core,
    hold: Option<ReadinessHold>,
}

impl Step for Repair {
    type Error = ApiError;

    async fn step(&mut self) -> Result<Next, ApiError> {
        let changed = once(&self.core).await?;
        tracing::info!(changed, "derived tuples compared with their rows");
        if let Some(hold) = self.hold.take() {
            hold.release();
        }
        Ok(Next::Done)
    }
}

/// One pass; gives the number of tuples that had to be changed.
///
/// # Errors
/// The database could not be asked; what was repaired before stays repaired.
async fn once(core: &Core) -> Result<u64, ApiError> {
    let mut changed = 0;
    for company in store::differing(&core.pool).await? {
        changed += match company {
            Some(company) => repair_company(core, company).await?,
            None => remove_orphans(core).await?,
        };
    }
    Ok(changed)
}

async fn repair_company(core: &Core, company: CompanyId) -> Result<u64, ApiError> {
    let mut tx = core.begin_as(ACTOR, None).await?;
    store::hold_company(tx.conn(), company).await?;
    let changed = store::rewrite(tx.conn(), company, None).await?;
    if changed == 0 {
        tx.unchanged().await?;
        return Ok(0);
    }
    tracing::warn!(%company, changed, "derived tuples differed from their rows");
    tx.commit(&event(Some(company), changed)).await?;
    Ok(changed)
}

async fn remove_orphans(core: &Core) -> Result<u64, ApiError> {
    let mut tx = core.begin_as(ACTOR, None).await?;
    let changed = store::remove_orphans(tx.conn()).await?;
    if changed == 0 {
        tx.unchanged().await?;
        return Ok(0);
    }
    tracing::warn!(changed, "derived tuples of nothing that exists");
    tx.commit(&event(None, changed)).await?;
    Ok(changed)
}

fn event(company: Option<CompanyId>, changed: u64) -> AuditEvent {
    let subject = company.map_or_else(|| "tuples:orphans".to_owned(), |company| format!("company:{company}"));
    AuditEvent { company, action: "tuples.repaired", subject, payload: json!({ "changed": changed }) }
}
