//! What the journeys share: the platform as processes, a browser's login, an API client that holds every answer
//! against the gateway's document, and waiting for what must become true.

pub(crate) mod client;
pub(crate) mod cuttable;
pub(crate) mod login;
pub(crate) mod process;
pub(crate) mod separate;
pub(crate) mod together;

use std::future::Future;
use std::time::{Duration, Instant};

pub(crate) use client::{Api, Reply};
pub(crate) use separate::Separate;
pub(crate) use together::Together;

/// Asks again and again until `check` says yes, and fails with what it said last when `limit` is over. For what the
/// platform promises to reach by itself (a restarted part that is used again), never in place of an answer.
pub(crate) async fn eventually<F, Fut>(what: &str, limit: Duration, mut check: F)
where
    F: FnMut() -> Fut,
    Fut: Future<Output = Result<(), String>>,
{
    let begun = Instant::now();
    let mut pace = tokio::time::interval(Duration::from_millis(50));
    loop {
        pace.tick().await;
        match check().await {
            Ok(()) => return,
            Err(last) if begun.elapsed() > limit => panic!("{what}: not within {limit:?}; last: {last}"),
            Err(_) => {}
        }
    }
}
