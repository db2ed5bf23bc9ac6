//! The well-behaved client beside the hostile ones: it repeats a request over each protocol; every request must be
//! answered promptly.

use std::time::{Duration, Instant};

use http::Method;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Target;
use crate::client::{BOTH, Client, request};

/// The pause between two requests of one connection.
const PAUSE: Duration = Duration::from_millis(10);
/// The limit for nearly all answers; the machine is shared with a whole test run.
const SOON: Duration = Duration::from_millis(500);
/// The limit for every answer.
const AT_LAST: Duration = Duration::from_secs(3);
const PATH: &str = "/api/timesheet/v1/witness";

/// Two well-behaved connections that run until the end.
pub(super) struct Witness {
    stop: CancellationToken,
    clients: JoinSet<Vec<Duration>>,
}

impl Witness {
    pub(super) async fn start(target: &Target) -> Self {
        let stop = CancellationToken::new();
        let mut clients = JoinSet::new();
        for version in BOTH {
            let client = target.world.client(version).await;
            clients.spawn(behave(client, target.witness.clone(), stop.clone()));
        }
        Self { stop, clients }
    }

    /// Checks the clients' results.
    pub(super) async fn end(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.clients.join_next().await {
            let mut took = ended.expect("every request was answered");
            took.sort();
            assert!(!took.is_empty(), "the witness saw something");
            let (most, slowest) = (took[(took.len() - 1) * 95 / 100], took[took.len() - 1]);
            assert!(most <= SOON && slowest <= AT_LAST, "95 %: {most:?}, slowest {slowest:?}");
        }
    }
}

async fn behave(mut client: Client, bearer: String, stop: CancellationToken) -> Vec<Duration> {
    let mut took = Vec::new();
    while !stop.is_cancelled() {
        let begun = Instant::now();
        let reply = client.send(request(Method::GET, PATH, &[("authorization", &bearer)], "")).await;
        assert_eq!(reply.status, 200, "the witness is answered rightly");
        took.push(begun.elapsed());
        tokio::time::sleep(PAUSE).await;
    }
    took
}
