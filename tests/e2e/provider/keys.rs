//! A new signing key while requests go on.

use std::time::{Duration, Instant};

use super::{Suite, access};
use crate::harness::Api;

/// Readers during the rotation.
const READERS: usize = 4;
/// How long they go on after it.
const AFTER: Duration = Duration::from_secs(3);

/// Tokens of the old key and of the new one are taken, all the time and at once.
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

fn kid(token: &str) -> String {
    use base64::Engine;
    let head = token.split('.').next().expect("a JWT has a head");
    let head = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(head).expect("base64url");
    let head: serde_json::Value = serde_json::from_slice(&head).expect("JSON");
    head["kid"].as_str().expect("a key id").to_owned()
}
