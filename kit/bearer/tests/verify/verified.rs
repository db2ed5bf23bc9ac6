//! The cache of verified tokens: answers without the provider, but never past `exp` and never after the key is
//! withdrawn.

use std::sync::Arc;
use std::time::Duration;

use bearer::{Refused, VerifiedTokens};
use contract::Clock;

use crate::keys::{loaded, token};
use crate::provider::{Answer, Key, Provider};
use crate::{NOW, verifier, verifier_by, verifier_refreshing};

#[tokio::test]
async fn the_same_token_is_verified_once_and_a_refused_one_every_time() {
    let (known, late) = (Key::ec(), Key::ec());
    let provider = Provider::start(Answer::Keys(vec![known.jwk("known")])).await;
    let (verifier, _stop) = verifier(&provider);
    loaded(&verifier).await;
    let tokens = VerifiedTokens::new(verifier, 1_000);
    let good = token(&known, "known");
    let first = tokens.verify(&good).await.expect("a good token");
    let second = tokens.verify(&good).await.expect("a good token");
    assert!(Arc::ptr_eq(&first, &second), "the second answer is the cached first one");
    let forged = token(&late, "known");
    assert!(matches!(tokens.verify(&forged).await, Err(Refused::Invalid(_))));
    provider.answer_with(Answer::Keys(vec![known.jwk("known"), late.jwk("late")]));
    let early = token(&late, "late");
    assert!(tokens.verify(&early).await.is_ok(), "a new key is fetched");
    assert!(matches!(tokens.verify(&forged).await, Err(Refused::Invalid(_))), "a forged token stays refused");
    let no_text = tokens.verify(b"a.\xff.c").await;
    assert_eq!(no_text, Err(Refused::Invalid("Authorization is not visible ASCII")));
}

#[tokio::test]
async fn a_known_token_expires_by_the_clock() {
    let key = Key::ec();
    let provider = Provider::start(Answer::Keys(vec![key.jwk("a")])).await;
    let clock = Clock::standing_at(NOW);
    let (verifier, _stop) = verifier_by(clock.clone(), &provider.url(), "10m");
    loaded(&verifier).await;
    let tokens = VerifiedTokens::new(verifier, 1_000);
    let token = token(&key, "a");
    assert!(tokens.verify(&token).await.is_ok());
    clock.advance(Duration::from_secs(329));
    assert!(tokens.verify(&token).await.is_ok(), "29 s past exp, within the leeway");
    clock.advance(Duration::from_secs(1));
    assert_eq!(tokens.verify(&token).await, Err(Refused::Invalid("expired")));
}

#[tokio::test]
async fn a_known_token_is_refused_once_its_key_is_withdrawn_and_the_others_are_verified_anew() {
    let (kept, lost) = (Key::ec(), Key::ec());
    let provider = Provider::start(Answer::Keys(vec![kept.jwk("kept"), lost.jwk("lost")])).await;
    let (verifier, _stop) = verifier_refreshing(&provider, "10ms");
    loaded(&verifier).await;
    let tokens = VerifiedTokens::new(verifier, 1_000);
    let (good, bad) = (token(&kept, "kept"), token(&lost, "lost"));
    let before = tokens.verify(&good).await.expect("a good token");
    assert!(tokens.verify(&bad).await.is_ok());
    provider.answer_with(Answer::Keys(vec![kept.jwk("kept")]));
    let refused = async {
        while tokens.verify(&bad).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), refused).await.expect("the withdrawal is noticed");
    assert_eq!(tokens.verify(&bad).await, Err(Refused::Invalid("unknown signing key")));
    let after = tokens.verify(&good).await.expect("a good token");
    assert!(!Arc::ptr_eq(&before, &after), "the cache was cleared");
}
