//! Accounts that the provider's administrator disables or deletes while their tokens are still valid.

use std::time::{Duration, Instant};

use serde_json::json;

use super::Suite;
use super::browser::VERIFIER;
use crate::harness::{Api, eventually};
use crate::tour::decide;

/// Time limit for noticing a change of an account (foundation: "within 30 s").
const SEEN_WITHIN: Duration = Duration::from_secs(30);

/// A disabled account: refused with `IDP_DISABLED` on a valid token, cannot log in, and works again once enabled.
pub(super) async fn disabled(suite: &Suite) {
    let (dave, subject) = suite.member("dave").await;
    decides(suite, &dave, "ALLOWED").await;
    suite.operator.set_enabled(&subject, false).await;
    let took = decides(suite, &dave, "IDP_DISABLED").await;
    println!("    disabled: every decision is IDP_DISABLED after {took:?}");
    dave.get("/api/org/me/companies").await.data(200);
    let projects = format!("/api/timesheet/v1/companies/{}/projects", suite.company);
    let refused = dave.get(&projects).await;
    refused.refused(403, "AUTHORIZATION_DENIED");
    assert_eq!(refused.body["error"]["details"]["reason"], "IDP_DISABLED");
    let browser = suite.browser();
    let page = browser.authorize(&[]).await;
    let again = browser.submit(&page, "dave", "dave").await;
    assert_eq!(again.location, None, "no login: {}", again.text);

    suite.operator.set_enabled(&subject, true).await;
    let took = decides(suite, &dave, "ALLOWED").await;
    println!("    enabled again: ALLOWED after {took:?}");
    suite.browser().login("dave").await;
}

/// A deleted account: the same, and its refresh token is invalid too.
pub(super) async fn deleted(suite: &Suite) {
    let (carol, subject) = suite.member("carol").await;
    let browser = suite.browser();
    let tokens = browser.login("carol").await;
    decides(suite, &carol, "ALLOWED").await;
    suite.operator.delete(&subject).await;
    let took = decides(suite, &carol, "IDP_DISABLED").await;
    println!("    deleted: every decision is IDP_DISABLED after {took:?}");
    carol.get("/api/org/me/companies").await.data(200);
    browser.refresh(&tokens).await.refused(&[400], "invalid_grant");
    let page = suite.browser().authorize(&[]).await;
    assert_eq!(page.status, 200);
    let browser = suite.browser();
    let page = browser.authorize(&[]).await;
    let again = browser.submit(&page, "carol", "carol").await;
    assert_eq!(again.location, None, "no login: {}", again.text);
    let sent = suite.browser();
    let page = sent.authorize(&[]).await;
    let alice = sent.submit(&page, "alice", "alice").await;
    assert_eq!(sent.exchange(alice.redirect(), VERIFIER).await.status, 200, "others log in as before");
}

/// Polls until the decision has this reason, within the time limit; returns how long that took.
async fn decides(suite: &Suite, api: &Api, reason: &str) -> Duration {
    let begun = Instant::now();
    eventually(&format!("decisions are {reason}"), SEEN_WITHIN, || async {
        let decision = decide(api, &suite.company).await;
        let decision = decision.data(200);
        let fits = decision["reason"] == reason && decision["allowed"] == json!(reason == "ALLOWED");
        if fits { Ok(()) } else { Err(decision.to_string()) }
    })
    .await;
    begun.elapsed()
}
