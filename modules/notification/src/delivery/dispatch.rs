//! Makes all pending jobs of the company due now: the first thousand in the request, the others soon after the response.
//! This is rarely needed: jobs are created with their messages, and the worker delivers them.

use axum::extract::State;
use serde::Serialize;
use serde_json::json;
use service::{ApiError, Data, Permit};

use super::store;
use crate::App;
use crate::backlog::{self, Change};

/// The result of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Dispatch {
    /// Jobs that this makes due.
    pub(crate) sent: i64,
    /// Jobs that are being delivered right now, or whose channel is disabled.
    pub(crate) skipped: i64,
}

pub(crate) async fn run(State(app): State<App>, permit: Permit) -> Result<Data<Dispatch>, ApiError> {
    let mut tx = permit.begin(&app.core).await?;
    let found = store::count_pending(&mut tx).await?;
    let done = Dispatch { sent: found.sent, skipped: found.pending - found.sent };
    if done.sent == 0 {
        tx.unchanged().await?;
        return Ok(Data(done));
    }
    backlog::begin(&mut tx, Change::MakeDue).await?;
    let company = tx.company();
    let told = json!({ "sent": done.sent, "skipped": done.skipped });
    tx.commit("dispatch.requested", format!("company:{company}"), told).await?;
    app.wake();
    Ok(Data(done))
}
