//! Shared by the journeys: the platform as processes, a browser's login, an API client that checks every response
//! against the gateway's document, and waiting for conditions.

pub(crate) mod client;
pub(crate) mod cuttable;
pub(crate) mod login;
pub(crate) mod process;
pub(crate) mod receiver;
pub(crate) mod separate;
pub(crate) mod together;

use std::future::Future;
use std::time::{Duration, Instant};

pub(crate) use client::{Api, Reply};
pub(crate) use separate::Separate;
pub(crate) use together::Together;

/// A variable that makes a journey longer or runs it elsewhere.
pub(crate) fn given(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.into_string().expect("a variable is text"))
}

/// A number that a variable may override.
pub(crate) fn given_or<T: std::str::FromStr>(name: &str, default: T) -> T {
    let number = |text: String| text.parse().unwrap_or_else(|_| panic!("{name}: {text} is not a number"));
    given(name).map_or(default, number)
}

/// Polls until `check` succeeds, and fails with its last error after `limit`. For states that the platform promises to
/// reach on its own (a restarted part that is used again), never to retry a response.
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
