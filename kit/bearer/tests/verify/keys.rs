//! The key set over time: late, rotated, withdrawn, unreachable, invalid.

use std::time::{Duration, Instant};

use bearer::Refused;
use bytes::Bytes;
use futures_util::future::join_all;
use http::StatusCode;
use serde_json::json;
use tokio::net::TcpListener;

use crate::provider::{Answer, Key, Provider};
use crate::{ISSUER, NOW, verifier, verifier_at, verifier_refreshing};

pub(crate) fn token(key: &Key, kid: &str) -> String {
    let claims = json!({"iss": ISSUER, "aud": "platform-api", "sub": "a1", "exp": NOW + 300});
    key.token(&json!({"alg": "ES256", "kid": kid}), &claims)
}

/// Waits until the background task has the first keys, a few seconds at most.
pub(crate) async fn loaded(verifier: &bearer::Verifier) {
    let waiting = async {
        while !verifier.keys_loaded() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), waiting).await.expect("the keys arrive within seconds");
}

#[tokio::test]
async fn before_the_first_keys_a_token_is_neither_good_nor_bad_and_a_late_provider_is_noticed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let key = Key::ec();
    let (late, _stop) = verifier_at(&format!("http://{address}/certs"), "10m");
    assert_eq!(late.verify(&token(&key, "a")).await, Err(Refused::KeysUnavailable));
    assert!(!late.keys_loaded());
    let listener = TcpListener::bind(address).await.expect("the port is still free");
    let _provider = Provider::on(listener, Answer::Keys(vec![key.jwk("a")]));
    loaded(&late).await;
    assert!(late.verify(&token(&key, "a")).await.is_ok());
}

#[tokio::test]
async fn a_new_key_is_fetched_once_for_all_who_wait_for_it() {
    let (old, new) = (Key::ec(), Key::ec());
    let provider = Provider::start(Answer::Keys(vec![old.jwk("old")])).await;
    let (verifier, _stop) = verifier(&provider);
    loaded(&verifier).await;
    provider.answer_with(Answer::Keys(vec![old.jwk("old"), new.jwk("new")]));
    let token = token(&new, "new");
    let many = (0..50).map(|_| verifier.verify(&token));
    for verified in join_all(many).await {
        assert!(verified.is_ok(), "{verified:?}");
    }
    assert_eq!(provider.fetches(), 2);
    assert_eq!(verifier.generation(), 0, "no key was lost");
}

#[tokio::test]
async fn forged_key_ids_cannot_flood_the_provider() {
    let key = Key::ec();
    let provider = Provider::start(Answer::Keys(vec![key.jwk("a")])).await;
    let (verifier, _stop) = verifier(&provider);
    loaded(&verifier).await;
    for number in 0..100 {
        let outcome = verifier.verify(&token(&key, &format!("forged-{number}"))).await;
        assert_eq!(outcome, Err(Refused::Invalid("unknown signing key")));
    }
    assert_eq!(provider.fetches(), 2, "the first read and one for all forged ids");
    assert!(verifier.verify(&token(&key, "a")).await.is_ok());
}

#[tokio::test]
async fn a_withdrawn_key_is_refused_and_the_generation_rises() {
    let (kept, withdrawn) = (Key::ec(), Key::ec());
    let provider = Provider::start(Answer::Keys(vec![kept.jwk("kept"), withdrawn.jwk("gone")])).await;
    let (verifier, _stop) = verifier_refreshing(&provider, "20ms");
    loaded(&verifier).await;
    assert!(verifier.verify(&token(&withdrawn, "gone")).await.is_ok());
    provider.answer_with(Answer::Keys(vec![kept.jwk("kept")]));
    // The next fetch began after the change, so by the time it is requested, the previous one has been published.
    provider.fetched(provider.fetches() + 3).await;
    assert_eq!(verifier.generation(), 1);
    assert!(matches!(verifier.verify(&token(&withdrawn, "gone")).await, Err(Refused::Invalid(_))));
    assert!(verifier.verify(&token(&kept, "kept")).await.is_ok());
}

#[tokio::test]
async fn nonsense_never_replaces_a_good_set() {
    let key = Key::ec();
    let provider = Provider::start(Answer::Keys(vec![key.jwk("a")])).await;
    let (verifier, _stop) = verifier_refreshing(&provider, "20ms");
    loaded(&verifier).await;
    let elsewhere = Provider::start(Answer::Keys(vec![Key::ec().jwk("evil")])).await;
    for nonsense in [
        Answer::Raw(StatusCode::OK, Bytes::from_static(b"<html>")),
        Answer::Raw(StatusCode::OK, Bytes::new()),
        Answer::Keys(vec![]),
        Answer::Raw(StatusCode::OK, Bytes::from(vec![b' '; 10 << 20])),
        Answer::Raw(StatusCode::INTERNAL_SERVER_ERROR, Bytes::new()),
        Answer::RedirectTo(elsewhere.url()),
    ] {
        provider.answer_with(nonsense);
        provider.fetched(provider.fetches() + 2).await;
        assert!(verifier.verify(&token(&key, "a")).await.is_ok());
    }
    assert_eq!(elsewhere.fetches(), 0, "no redirect is followed");
    assert_eq!(verifier.generation(), 0);
}

#[tokio::test]
async fn a_provider_that_hangs_holds_an_unknown_key_id_two_seconds_and_nobody_else() {
    let key = Key::ec();
    let provider = Provider::start(Answer::Keys(vec![key.jwk("a")])).await;
    let (verifier, _stop) = verifier(&provider);
    loaded(&verifier).await;
    provider.answer_with(Answer::Hang);
    let began = Instant::now();
    let (unknown, known) = (token(&key, "b"), token(&key, "a"));
    let waiting = tokio::spawn({
        let verifier = verifier.clone();
        async move { verifier.verify(&unknown).await }
    });
    provider.fetched(2).await;
    assert!(verifier.verify(&known).await.is_ok());
    assert!(began.elapsed() < Duration::from_secs(1));
    assert!(matches!(waiting.await.expect("no panic"), Err(Refused::Invalid(_))));
    let took = began.elapsed();
    // The upper bound only needs to separate the fetch's own limit from the test provider's hour, on any busy machine.
    assert!((Duration::from_secs(2)..Duration::from_secs(10)).contains(&took), "{took:?}");
}
