//! Erases personal data from the member rows of closed subjects: a row keeps its ids; its name and code are replaced,
//! and its address is removed. Identity commits the closing; a worker finds it in `identity.subject_facts`, so an
//! outage of either service loses nothing. Modules store names too, and learn from `http.rs` which members are former.

pub(crate) mod http;
mod store;

use std::time::Duration;

use contract::id::MemberId;
use serde_json::{Map, json};
use service::workers::{Next, Step};
use service::{ApiError, Core};

use crate::events::event;
use crate::members::http::held;
use crate::tuples;

/// Actor of the audit rows.
const ACTOR: &str = "system:forgetting";
/// Interval of the search for closed subjects. Each search covers all of them, however long ago they were closed.
const INTERVAL: Duration = Duration::from_secs(5);
/// Member rows per step.
const PORTION: i64 = 100;

/// Starts the worker, which runs until the service stops.
pub(crate) fn start(core: &Core) {
    core.workers.every("forgetting", INTERVAL, Forgetting { core: core.for_workers(), after: None });
}

struct Forgetting {
    core: Core,
    /// The last row of the previous portion, within one search.
    after: Option<MemberId>,
}

impl Step for Forgetting {
    type Error = ApiError;

    /// Erases one portion. A row that cannot be erased holds up no other: it is tried again by the next search.
    async fn step(&mut self) -> Result<Next, ApiError> {
        let members = store::of_closed(&self.core.pool, self.after, PORTION).await?;
        self.after = members.last().copied();
        let mut failed = None;
        for member in members {
            if let Err(error) = forget(&self.core, member).await {
                tracing::warn!(%member, %error, "a former member's row is not erased yet");
                failed = Some(error);
            }
        }
        match failed {
            Some(error) => Err(error),
            None if self.after.is_some() => Ok(Next::In(Duration::ZERO)),
            None => Ok(Next::Interval),
        }
    }
}

async fn forget(core: &Core, member: MemberId) -> Result<(), ApiError> {
    let mut tx = core.begin_as(ACTOR, None).await?;
    let before = held(&mut tx, member).await?;
    if !store::forget(tx.conn(), member).await? {
        // Another process was faster, or the row was unlinked meanwhile.
        return tx.unchanged().await;
    }
    tuples::store::rewrite(tx.conn(), before.company_id, before.user_id.as_slice()).await?;
    let subject = before.user_id.as_deref().unwrap_or_default();
    store::tell(tx.conn(), before.company_id, member, subject).await?;
    let payload = if before.is_active {
        Map::from_iter([("isActive".to_owned(), json!({ "from": true, "to": false }))])
    } else {
        Map::new()
    };
    tx.commit(&event(before.company_id, "member.forgotten", "member", member, payload)).await
}
