//! Changes to all pending deliveries of a channel or of a company. There can be very many, so the request makes the
//! first portion of its change in its own transaction, and the worker makes the others, each in a transaction of its own.

mod store;

use std::time::Duration;

use serde_json::json;
use service::workers::{Next, Wake, Workers};
use service::{ApiError, CompanyTx, Core};

use crate::app::system;
use crate::channels::rules::{ChannelId, subject};

/// How often the worker looks for changes that requests have left.
const POLL: Duration = Duration::from_secs(1);

/// What happens to the deliveries. Those that a worker has leased are left to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The channel is deleted: its deliveries are dead.
    GiveUp(ChannelId),
    /// The channel is enabled: deliveries that waited only for this are due.
    Release(ChannelId),
    /// The company's deliveries are due, except those whose channel is disabled.
    MakeDue,
}

/// Makes the first portion of a change and leaves the others to the worker. Returns how many deliveries were changed.
pub(crate) async fn begin(tx: &mut CompanyTx, change: Change) -> Result<u64, ApiError> {
    store::lock(tx, change).await?;
    let portion = store::portion(tx, change, store::Place::START).await?;
    if let Some(next) = portion.next {
        store::leave(tx, change, next).await?;
    }
    Ok(portion.changed)
}

/// Starts the worker that makes what requests have left. `queue` is woken when deliveries become due.
pub(crate) fn start(workers: &Workers, core: &Core, queue: &Wake) {
    let (core, queue) = (core.for_workers(), queue.clone());
    workers.every("delivery_backlog", POLL, move || {
        let (core, queue) = (core.clone(), queue.clone());
        async move { step(&core, &queue).await }
    });
}

/// Makes one portion of the change that has waited longest.
async fn step(core: &Core, queue: &Wake) -> Result<Next, ApiError> {
    let Some((company, change)) = store::next_in_turn(&core.pool).await? else {
        return Ok(Next::Interval);
    };
    let mut tx = system(company).begin(core).await?;
    let Some(after) = store::take(&mut tx, change).await? else {
        // Another process makes this portion, or has just made the last one.
        tx.unchanged().await?;
        return Ok(Next::Interval);
    };
    let portion = store::portion(&mut tx, change, after).await?;
    match portion.next {
        Some(next) => store::leave(&mut tx, change, next).await?,
        None => store::finish(&mut tx, change).await?,
    }
    match change {
        Change::GiveUp(channel) if portion.changed > 0 => {
            let told = json!({ "deliveriesGivenUp": portion.changed });
            tx.commit("channel.deliveries_given_up", subject(channel), told).await?;
        }
        // The request's own audit row tells that these are due.
        Change::GiveUp(_) | Change::Release(_) | Change::MakeDue => {
            tx.commit_recorded().await?;
            queue.wake();
        }
    }
    Ok(Next::In(Duration::ZERO))
}
