//! The record of a subject.

use serde_json::{Value, json};

use crate::support::{Identity, OPERATOR, fields, together};

async fn user(identity: &Identity, subject: &str) -> Value {
    identity.get(&format!("/internal/identity/users/{subject}")).await.data().clone()
}

#[tokio::test]
async fn the_first_request_makes_the_record_with_its_account_state() {
    let identity = Identity::start().await;
    identity.provider.account("alice", "alice", true);
    let body = json!({
        "kcSub": "alice", "kind": "user", "email": "alice@example.org", "displayName": "Alice",
        "preferredUsername": "alice"
    });
    let first = identity.provision(body.clone()).await;
    assert_eq!(first.data(), &json!({ "kcSub": "alice", "created": true }));
    assert_eq!(identity.provision(body).await.data()["created"], false);
    let record = user(&identity, "alice").await;
    assert_eq!(
        (&record["email"], &record["idpEnabled"], &record["lifecycle"]),
        (&json!("alice@example.org"), &json!(true), &json!("active"))
    );
    assert_eq!(identity.audit().await, ["alice user.provisioned user:alice"]);
}

#[tokio::test]
async fn a_record_is_made_and_renamed_only_with_its_own_subjects_bearer() {
    const PATH: &str = "/internal/identity/provision";
    let identity = Identity::start().await;
    identity.known("alice").await;
    identity.provider.account("bob", "bob", true);
    let (record, rows) = (user(&identity, "alice").await, identity.audit().await);
    for subject in ["alice", "bob"] {
        let body = json!({ "kcSub": subject, "kind": "user", "displayName": "Mallory" });
        let call = || identity.api.post(PATH).json(body.clone());
        let bare = identity.checked("POST", PATH, call()).await;
        assert_eq!((bare.status, bare.code()), (401, "AUTH_TOKEN_MISSING"), "{subject}");
        for wrong in [OPERATOR.to_owned(), identity.issuer.token(subject).expires_in(-60).sign()] {
            let reply = identity.checked("POST", PATH, call().bearer(&wrong)).await;
            assert_eq!((reply.status, reply.code()), (401, "AUTH_TOKEN_INVALID"), "{subject}");
        }
        let another = identity.issuer.issue("mallory");
        let reply = identity.checked("POST", PATH, call().bearer(&another)).await;
        assert_eq!((reply.status, reply.code()), (403, "FORBIDDEN"), "{subject}");
    }
    assert_eq!((user(&identity, "alice").await, identity.audit().await), (record, rows));
    assert_eq!(identity.get("/internal/identity/users/bob").await.status, 404);
    let own = json!({ "kcSub": "bob", "kind": "user", "displayName": "Bob" });
    assert_eq!(identity.provision(own).await.data()["created"], true);
}

#[tokio::test]
async fn a_disabled_or_missing_account_is_disabled_from_the_start() {
    let identity = Identity::start().await;
    identity.provider.account("bob", "bob", false);
    for subject in ["bob", "ghost"] {
        let reply = identity.provision(json!({ "kcSub": subject, "kind": "user" })).await;
        assert_eq!(reply.data()["created"], true);
        assert!(!identity.is_enabled(subject).await);
    }
    identity.provider.account("crm", "service-account-crm", true);
    identity.provision(json!({ "kcSub": "crm", "kind": "service" })).await;
    assert_eq!(user(&identity, "crm").await["kind"], "service");
    assert!(identity.is_enabled("crm").await);
}

#[tokio::test]
async fn parallel_first_requests_make_one_record_and_one_audit_row() {
    let identity = Identity::start().await;
    identity.provider.account("alice", "alice", true);
    let body = json!({ "kcSub": "alice", "kind": "user" });
    let replies = together((0..16).map(|_| identity.provision(body.clone())).collect()).await;
    assert!(replies.iter().all(|reply| reply.status == 200));
    assert_eq!(replies.iter().filter(|reply| reply.data()["created"] == json!(true)).count(), 1);
    assert_eq!(identity.audit().await.len(), 1);
}

#[tokio::test]
async fn without_an_answer_of_the_provider_there_is_no_new_record_but_known_ones_stay() {
    let identity = Identity::start().await;
    identity.known("alice").await;
    for status in [500, 403, 204] {
        identity.provider.fail(status);
        let reply = identity.provision(json!({ "kcSub": "bob", "kind": "user" })).await;
        assert_eq!((reply.status, reply.code()), (503, "AUTHORIZATION_UNAVAILABLE"), "{status}");
        assert_eq!(reply.body["error"]["details"]["dependency"], "idp");
    }
    assert_eq!(identity.get("/internal/identity/users/bob").await.status, 404);
    assert_eq!(identity.provision(json!({ "kcSub": "alice", "kind": "user" })).await.status, 200);
    assert_eq!(identity.audit().await.len(), 1);
}

#[tokio::test]
async fn fields_have_limits() {
    let identity = Identity::start().await;
    let longest = json!({
        "kcSub": "s".repeat(255), "kind": "service", "email": "e".repeat(1_000), "displayName": "ä".repeat(1_000),
        "preferredUsername": ""
    });
    assert_eq!(identity.provision(longest).await.status, 200);
    assert_eq!(user(&identity, &"s".repeat(255)).await["preferredUsername"], Value::Null);
    let past = json!({
        "kcSub": "s".repeat(256), "kind": "robot", "email": "e".repeat(1_001), "displayName": "d".repeat(1_001),
        "preferredUsername": 7
    });
    assert_eq!(
        fields(&identity.provision(past).await),
        ["kcSub length", "kind enum", "email length", "displayName length", "preferredUsername type"]
    );
    assert_eq!(fields(&identity.provision(json!({})).await), ["kcSub required", "kind required"]);
}

#[tokio::test]
async fn later_requests_refresh_what_changed_and_are_not_a_hot_row() {
    let identity = Identity::start().await;
    identity.known("alice").await;
    let seen = user(&identity, "alice").await["lastSeenAt"].clone();
    let same = json!({ "kcSub": "alice", "kind": "user", "displayName": "alice" });
    identity.provision(same.clone()).await;
    assert_eq!(user(&identity, "alice").await["lastSeenAt"], seen, "seen a moment ago");
    let changed = json!({ "kcSub": "alice", "kind": "user", "email": "new@example.org" });
    assert_eq!(identity.provision(changed).await.data()["created"], false);
    let record = user(&identity, "alice").await;
    assert_eq!((&record["email"], &record["displayName"]), (&json!("new@example.org"), &json!("alice")));
    let old = "UPDATE identity.users SET last_seen_at = now() - interval '6 minutes'";
    identity.run(sqlx::query(old)).await;
    let before = user(&identity, "alice").await["lastSeenAt"].clone();
    identity.provision(same).await;
    assert_ne!(user(&identity, "alice").await["lastSeenAt"], before);
    assert_eq!(
        identity.audit().await,
        ["alice user.provisioned user:alice", "alice user.profile_changed user:alice"]
    );
}
