//! Closing: the provider removes the account, and no name remains here.

use http::Method;
use serde_json::{Value, json};
use testkit::{Reply, until};

use crate::support::Identity;

const NAME: &str = "Rosalind Featherstonehaugh";
const EMAIL: &str = "rosalind.f@example.test";

async fn close(identity: &Identity, subject: &str) -> Reply {
    let path = format!("/internal/identity/users/{subject}/lifecycle");
    let body = json!({ "state": "closed", "reason": "left", "operator": "root" });
    identity.send(Method::PUT, &path, Some(body)).await
}

/// A subject whose names arrived twice.
async fn known(identity: &Identity, subject: &str, kind: &str) {
    identity.provider.account(subject, subject, true);
    for name in ["R. F.", NAME] {
        let body = json!({ "kcSub": subject, "kind": kind, "displayName": name, "email": EMAIL, "preferredUsername": "rosie" });
        assert_eq!(identity.provision(body).await.status, 200);
    }
}

async fn removal(identity: &Identity, subject: &str) -> Value {
    identity.get(&format!("/internal/identity/users/{subject}")).await.data()["accountRemoval"].clone()
}

async fn everything(identity: &Identity) -> String {
    sqlx::query_scalar(
        "SELECT (SELECT string_agg(u::text, ' ') FROM identity.users u)
             || (SELECT string_agg(e::text, ' ') FROM audit.identity__events e)",
    )
    .fetch_one(&identity.owner)
    .await
    .expect("rows")
}

#[tokio::test]
async fn the_account_is_removed_and_no_name_is_left() {
    let identity = Identity::start().await;
    known(&identity, "s1", "user").await;
    let before = everything(&identity).await;
    assert!(before.contains(NAME) && before.contains(EMAIL) && before.contains("rosie"));
    let audited: String = sqlx::query_scalar("SELECT string_agg(e::text, ' ') FROM audit.identity__events e")
        .fetch_one(&identity.owner)
        .await
        .expect("rows");
    assert!(audited.contains("user.profile_changed") && audited.contains("displayNameDigest"));
    assert!(!audited.contains(NAME) && !audited.contains(EMAIL), "audit rows contain digests from the start");

    assert_eq!(close(&identity, "s1").await.data()["accountRemoval"], "done");
    assert!(!identity.provider.has("s1"));
    let after = everything(&identity).await;
    for name in [NAME, EMAIL, "rosie"] {
        assert!(!after.contains(name), "{name} remains");
    }
    assert_eq!(
        identity.audit().await.split_off(2),
        [
            "operator:root user.lifecycle_changed user:s1",
            "system:account-removal user.account_removed user:s1"
        ]
    );
    assert_eq!(close(&identity, "s1").await.code(), "LIFECYCLE_TRANSITION_INVALID");
    let late = json!({ "kcSub": "s1", "kind": "user", "displayName": NAME, "email": EMAIL });
    assert_eq!(identity.provision(late).await.status, 200, "a token that is still valid");
    assert!(!everything(&identity).await.contains(NAME));
}

#[tokio::test]
async fn a_provider_that_refuses_is_asked_again() {
    let identity = Identity::start().await;
    known(&identity, "s1", "user").await;
    known(&identity, "s2", "user").await;
    identity.provider.keep_accounts(true);
    assert_eq!(close(&identity, "s1").await.data()["accountRemoval"], "due");
    assert_eq!(removal(&identity, "s1").await, "due");
    assert_eq!(close(&identity, "s1").await.data()["accountRemoval"], "due", "requested once more");
    assert!(identity.remove_due().await.is_err());
    identity.provider.keep_accounts(false);
    identity.remove_due().await.expect("the provider answers");
    assert_eq!(removal(&identity, "s1").await, "done");
    assert!(!identity.provider.has("s1") && identity.provider.has("s2"), "only the closed one");
    identity.provider.delete("s2");
    assert_eq!(close(&identity, "s2").await.data()["accountRemoval"], "done", "it was gone before");
}

#[tokio::test]
async fn services_own_accounts_stay_and_old_closings_are_completed_when_they_are_repeated() {
    let identity = Identity::start().await;
    known(&identity, "service", "service").await;
    known(&identity, "old", "user").await;
    assert_eq!(close(&identity, "service").await.data()["accountRemoval"], Value::Null);
    assert!(identity.provider.has("service"));
    let before_it_was_asked =
        "UPDATE identity.users SET lifecycle = 'closed', name_salt = NULL, email = NULL,
        display_name = NULL, preferred_username = NULL WHERE kc_sub = 'old'";
    identity.run(sqlx::query(before_it_was_asked)).await;
    identity.remove_due().await.expect("nothing is due");
    assert!(identity.provider.has("old"), "it was never requested");
    assert_eq!(close(&identity, "old").await.data()["accountRemoval"], "done");
    assert!(!identity.provider.has("old"));
    assert_eq!(close(&identity, "service").await.code(), "LIFECYCLE_TRANSITION_INVALID");
    until("the rows are there", || async {
        identity.audit().await.contains(&"system:account-removal user.account_removed user:old".to_owned())
    })
    .await;
}
