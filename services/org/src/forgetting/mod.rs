//! Member rows of closed subjects: each keeps its ids and becomes a former member without name, address and code of its own.
//! The closing commits in identity; this loop finds it in `identity.subject_facts`, so that nothing is lost when either of the
//! two is away. Modules, which hold names of their own, read here which members are former ones (`http.rs`).

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
/// How often closed subjects are looked for. Each look goes through all of them, however long ago they were closed.
const INTERVAL: Duration = Duration::from_secs(5);
/// Member rows of one step.
const PORTION: i64 = 100;

/// Looks for closed subjects until the service stops.
pub(crate) fn start(core: &Core) {
    core.workers.every("forgetting", INTERVAL, Forgetting(core.for_workers()));
}

struct Forgetting(Core);

impl Step for Forgetting {
    type Error = ApiError;

    async fn step(&mut self) -> Result<Next, ApiError> {
        let members = store::of_closed(&self.0.pool, PORTION).await?;
        let more = !members.is_empty();
        for member in members {
            forget(&self.0, member).await?;
        }
        Ok(if more { Next::In(Duration::ZERO) } else { Next::Interval })
    }
}

async fn forget(core: &Core, member: MemberId) -> Result<(), ApiError> {
    let mut tx = core.begin_as(ACTOR, None).await?;
    let before = held(&mut tx, member).await?;
    if !store::forget(tx.conn(), member).await? {
        // Another process was first, or the row was unlinked meanwhile.
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
