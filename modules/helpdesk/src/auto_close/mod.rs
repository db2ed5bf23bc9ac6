//! Closes tickets that have been resolved, without a change or a public comment, for as long as their company's rules say.
//! The actor of the audit rows is `system:auto-close`; the notice is posted on behalf of the reporter.

mod store;

use std::time::Duration;

use contract::{CorrelationId, Subject};
use serde_json::json;
use service::module::Parts;
use service::workers::Wake;
use service::{ApiError, Core, SystemPermit};

use crate::notices::rules::{Happened, Notice};
use crate::tickets::rules::{Status, subject};
use crate::{KEY, notices};

/// The worker's name in audit rows: `system:auto-close`.
pub const WORKER: &str = "auto-close";
/// How often the worker runs; a ticket is closed at most this much later than the rules say.
const EVERY: Duration = Duration::from_mins(5);
/// Tickets of one company that are closed before other companies' are.
pub const BATCH: i64 = 20;
/// Companies looked at together.
const COMPANIES: i64 = 50;

/// Starts the worker.
pub(crate) fn start(parts: &Parts, notices: &Wake) {
    let own = Parts { core: parts.core.for_workers(), ..parts.clone() };
    let wake = notices.clone();
    parts.core.workers.every("auto_close", EVERY, move || {
        let (parts, wake) = (own.clone(), wake.clone());
        async move {
            if run(&parts).await? > 0 {
                wake.wake();
            }
            Ok::<_, ApiError>(())
        }
    });
}

/// Closes the tickets that are due and returns how many it closed.
///
/// # Errors
/// 503 when authz or the database does not answer; tickets closed by then stay closed.
pub async fn run(parts: &Parts) -> Result<u64, ApiError> {
    let mut closed = 0;
    loop {
        let moved = round(parts).await?;
        closed += moved;
        // If none could be closed, another process was faster; the next run looks again.
        if moved == 0 {
            return Ok(closed);
        }
    }
}

/// Closes a few due tickets of each company, so that no company waits for another's backlog. In a company that is not
/// active, and while the module is disabled, nothing is closed.
async fn round(parts: &Parts) -> Result<u64, ApiError> {
    let core = &parts.core;
    let (mut closed, mut after) = (0, None);
    loop {
        let companies = store::companies(&core.pool, after, COMPANIES).await?;
        let Some(last) = companies.last() else { return Ok(closed) };
        after = Some(*last);
        let due = store::due(&core.pool, &companies, core.clock.now(), BATCH).await?;
        for of_company in due.chunk_by(|one, other| one.company() == other.company()) {
            let Some(company) = of_company.first().map(store::Due::company) else { continue };
            if !parts.authz.is_in_use(company, KEY, &CorrelationId::generate()).await? {
                continue;
            }
            for ticket in of_company {
                closed += u64::from(close(core, ticket).await?);
            }
        }
    }
}

/// Closes one ticket in its own transaction; returns false when someone else has moved it meanwhile.
async fn close(core: &Core, ticket: &store::Due) -> Result<bool, ApiError> {
    let mut tx = SystemPermit::of(WORKER, ticket.company()).begin(core).await?;
    if !store::close(&mut tx, ticket).await? {
        tx.unchanged().await?;
        return Ok(false);
    }
    let (from, to) = (Status::Resolved, Status::Closed);
    if let Some(reporter) = Subject::parse(&ticket.reporter_kc_sub) {
        let notice =
            Notice { ticket: ticket.id(), number: ticket.number, happened: Happened::Moved { from, to } };
        notices::store::add_for(&mut tx, &reporter, None, &notice).await?;
    }
    let told = json!({ "status": { "from": from, "to": to } });
    tx.commit("ticket.status_changed", subject(ticket.id()), told).await?;
    Ok(true)
}
