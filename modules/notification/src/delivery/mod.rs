//! Deliveries. The outbox is a queue of `service::workers`, which claims, retries and settles jobs; this module defines
//! one attempt.
//!
//! ```text
//! queue.rs     claim -> attempt by kind -> settle: job, attempt row, health, audit    (store.rs)
//! in_use.rs    whether the company uses the module
//! webhook.rs   signs by the Standard Webhooks specification, sends through service::outbound
//! recipient.rs whether a mail still has a recipient
//! mail.rs      SMTP with lettre                    outcome.rs  what a response means: done, retry or dead
//! ```

pub(crate) mod dispatch;
mod in_use;
pub mod mail;
mod meter;
pub mod outcome;
mod queue;
mod recipient;
mod store;
pub mod webhook;

use std::time::Duration;

use service::ServeError;
use service::module::Parts;
use service::outbound::OutboundClient;
use service::workers::{Kept, QueueConfig, Wake};

pub use meter::Meter;

use crate::app::Outbox;
use crate::secrets::rules::Sealer;
use crate::settings::Settings;
use crate::subscriptions;

contract::typed_id!(
    /// A delivery of one message to one receiver.
    DeliveryId
);

/// The worker's name in audit rows: `system:delivery-worker`.
pub(crate) const WORKER: &str = "delivery-worker";
/// Bytes that are read of a receiver's response; they are discarded.
pub(crate) const MAX_ANSWER: usize = 4 << 10;
/// Most concurrent deliveries to one channel, so that a slow receiver does not take all slots.
const SLOTS_PER_CHANNEL: usize = 4;
/// How long a worker holds the lease of a job: three quarters of it are twice the longest attempt.
const LEASE: Duration = Duration::from_mins(1);
/// How often the queue looks for due jobs.
const POLL: Duration = Duration::from_secs(1);
/// How often expired settled jobs and former addresses are deleted.
const SWEEP_EVERY: Duration = Duration::from_hours(1);
/// How long settled jobs are kept. Messages are kept for ever.
const KEPT: Kept = Kept { done_days: 30, dead_days: 90 };

/// Starts the worker, the recount and the sweep.
pub(crate) fn start(
    parts: &Parts,
    settings: &Settings,
    meter: &Meter,
    outbound: &OutboundClient,
    sealer: &Sealer,
    outbox: &Outbox,
) -> Result<Wake, ServeError> {
    let workers = &parts.core.workers;
    let group = settings.claim_group.clone();
    let (counting, pool) = (meter.clone(), workers.pool().clone());
    workers.every("delivery_recount", settings.recount_interval, move || {
        let (meter, pool, group) = (counting.clone(), pool.clone(), group.clone());
        async move { meter.count(&pool, &group).await }
    });
    let pool = workers.pool().clone();
    workers.every("delivery_retention", SWEEP_EVERY, move || {
        let pool = pool.clone();
        async move {
            queue::TABLE.sweep(&pool, KEPT).await?;
            subscriptions::store::sweep(&pool).await
        }
    });
    let mailer = settings.mail.as_ref().map(mail::Mailer::new).transpose();
    let mailer = mailer.map_err(|error| ServeError::Unfit(format!("the mail transport: {error}")))?;
    let queue = queue::Deliveries {
        core: parts.core.for_workers(),
        org: parts.org.clone(),
        authz: parts.authz.clone(),
        uses: in_use::Uses::new(parts.authz.clone()),
        outbox: outbox.clone(),
        outbound: outbound.clone(),
        sealer: sealer.clone(),
        mailer,
        meter: meter.clone(),
    };
    let config = QueueConfig {
        name: "deliveries",
        slots: settings.concurrency,
        slots_per_key: SLOTS_PER_CHANNEL,
        lease: LEASE,
        poll: POLL,
        ladder: settings.ladder.ladder.clone(),
    };
    Ok(workers.queue(config, queue))
}
