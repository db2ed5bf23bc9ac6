//! Closes tickets that have been resolved, without a change or a public comment, for as long as their company's rules say.
//! The actor of the audit rows is `system:auto-close`; the notice is posted on behalf of the reporter.

mod store;

use std::time::Duration;

use contract::Subject;
use serde_json::json;
use service::workers::Wake;
use service::{ApiError, Core, SystemPermit};

use crate::notices;
use crate::notices::rules::{Happened, Notice};
use crate::tickets::rules::{Status, subject};

/// The worker's name in audit rows: `system:auto-close`.
pub const WORKER: &str = "auto-close";
/// How often the worker runs; a ticket is closed at most this much later than the rules say.
const EVERY: Duration = Duration::from_mins(5);
/// Tickets read at a time.
pub const BATCH: i64 = 200;

/// Starts the worker.
pub(crate) fn start(core: &Core, notices: &Wake) {
    let (own, wake) = (core.for_workers(), notices.clone());
    core.workers.every("auto_close", EVERY, move || {
        let (core, wake) = (own.clone(), wake.clone());
        async move {
            if run(&core).await? > 0 {
                wake.wake();
            }
            Ok::<_, ApiError>(())
        }
    });
}

/// Closes the tickets that are due and returns how many it closed.
///
/// # Errors
/// 503 when the database does not answer; tickets closed by then stay closed.
pub async fn run(core: &Core) -> Result<u64, ApiError> {
    let mut closed = 0;
    loop {
        let due = store::due(&core.pool, core.clock.now(), BATCH).await?;
        let read = due.len();
        let mut moved = 0;
        for ticket in due {
            moved += u64::from(close(core, &ticket).await?);
        }
        closed += moved;
        // If none could be closed, another process was faster; the next round looks again.
        if moved == 0 || i64::try_from(read).is_ok_and(|read| read < BATCH) {
            return Ok(closed);
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
