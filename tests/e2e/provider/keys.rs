//! A new signing key while requests are in progress.

use std::time::{Duration, Instant};

use super::{Suite, access};
use crate::harness::Api;
use crate::harness::login::kid;

/// Concurrent readers during the rotation.
const READERS: usize = 4;
/// How long the readers continue after it.
const AFTER: Duration = Duration::from_secs(3);

/// Tokens of the old key stay valid throughout, and tokens of the new key are accepted at once.
pub(super) async fn rotation(suite: &Suite) {
    let token = access(&suite.browser().login("alice").await);
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let readers: Vec<_> =
        (0..READERS).map(|_| tokio::spawn(read(suite.api().with_token(&token), stopped.clone()))).collect();
    suite.operator.rotate().await;
    let rotated = Instant::now();
    let newer = access(&suite.browser().login("alice").await);
    assert_ne!(kid(&newer), kid(&token), "the new key signs");
    let first = suite.api().with_token(&newer).get("/api/org/me/companies").await;
    first.data(200);
    println!("    the first token of the new key was taken {:?} after the rotation", rotated.elapsed());
    while rotated.elapsed() < AFTER {
        suite.api().with_token(&newer).get("/api/platform/catalog").await.data(200);
    }
    stop.send(true).expect("the readers listen");
    let mut answers = 0;
    for reader in readers {
        answers += reader.await.expect("a reader's every answer was 200");
    }
    assert!(answers > 0, "there were requests during the rotation");
    println!("    {answers} requests with the old key's token meanwhile, all 200");
}

async fn read(api: Api, stopped: tokio::sync::watch::Receiver<bool>) -> usize {
    let mut answers = 0;
    while !*stopped.borrow() {
        api.get("/api/org/me/companies").await.data(200);
        answers += 1;
    }
    answers
}
