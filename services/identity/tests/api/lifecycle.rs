//! The lifecycle of a subject, and the last superadmin.

use http::Method;
use serde_json::{Value, json};
use testkit::Reply;

use crate::support::{Identity, fields, together};

async fn put(identity: &Identity, subject: &str, body: Value) -> Reply {
    let path = format!("/internal/identity/users/{subject}/lifecycle");
    identity.send(Method::PUT, &path, Some(body)).await
}

async fn to(identity: &Identity, subject: &str, state: &str) -> Reply {
    put(identity, subject, json!({ "state": state, "reason": "because", "operator": "root" })).await
}

#[tokio::test]
async fn subjects_are_suspended_activated_and_closed_for_good() {
    let identity = Identity::start().await;
    identity.known("alice").await;
    for state in ["suspended", "active", "suspended", "closed"] {
        assert_eq!(to(&identity, "alice", state).await.data()["lifecycle"], state);
    }
    let record = identity.get("/internal/identity/users/alice").await;
    assert_eq!(record.data()["displayName"], Value::Null, "a closed record contains no personal data");
    for state in ["active", "suspended", "closed"] {
        let reply = to(&identity, "alice", state).await;
        assert_eq!((reply.status, reply.code()), (409, "LIFECYCLE_TRANSITION_INVALID"));
    }
    let again = identity.provision(json!({ "kcSub": "alice", "kind": "user", "displayName": "Alice" })).await;
    assert_eq!(again.data()["created"], false);
    let record = identity.get("/internal/identity/users/alice").await;
    assert_eq!(record.data()["displayName"], Value::Null, "and is not filled again");
    let rows = identity.audit().await;
    assert_eq!(rows.len(), 6);
    assert_eq!(
        rows[4..],
        [
            "operator:root user.lifecycle_changed user:alice",
            "system:account-removal user.account_removed user:alice",
        ]
    );
}

#[tokio::test]
async fn a_change_names_a_known_subject_a_state_and_a_reason() {
    let identity = Identity::start().await;
    identity.known("alice").await;
    assert_eq!(to(&identity, "nobody", "suspended").await.code(), "NOT_FOUND");
    assert_eq!(to(&identity, "nobody", "active").await.code(), "NOT_FOUND");
    assert_eq!(to(&identity, "alice", "active").await.code(), "LIFECYCLE_TRANSITION_INVALID");
    assert_eq!(fields(&put(&identity, "alice", json!({})).await), ["state required", "reason required"]);
    let past = json!({ "state": "gone", "reason": "r".repeat(501), "operator": "o".repeat(201) });
    assert_eq!(
        fields(&put(&identity, "alice", past).await),
        ["state enum", "reason length", "operator length"]
    );
    let longest = json!({ "state": "suspended", "reason": "r".repeat(500), "operator": "o".repeat(200) });
    assert_eq!(put(&identity, "alice", longest).await.status, 200);
}

/// An account that an operator created and that has sent no request yet has no record.
#[tokio::test]
async fn an_account_without_a_record_is_suspended_and_closed_too() {
    let identity = Identity::start().await;
    for subject in ["newcomer", "leaver"] {
        identity.provider.account(subject, &format!("{subject}-by-name"), true);
        assert_eq!(identity.get(&format!("/internal/identity/users/{subject}")).await.status, 404);
    }
    assert_eq!(to(&identity, "newcomer", "active").await.code(), "NOT_FOUND", "it is");
    for state in ["suspended", "active", "closed"] {
        let moved = to(&identity, "newcomer", state).await;
        assert_eq!((moved.status, &moved.body["data"]["lifecycle"]), (200, &json!(state)), "{}", moved.text);
    }
    let closed = to(&identity, "leaver", "closed").await;
    assert_eq!((closed.status, &closed.body["data"]["displayName"]), (200, &Value::Null), "{}", closed.text);
    let audited: String = sqlx::query_scalar("SELECT string_agg(e::text, ' ') FROM audit.identity__events e")
        .fetch_one(&identity.owner)
        .await
        .expect("the audit table");
    assert!(!audited.contains("leaver-by-name"), "a name that would be erased is never stored");
    let again =
        identity.provision(json!({ "kcSub": "leaver", "kind": "user", "displayName": "Leaver" })).await;
    assert_eq!(again.data()["created"], false);
    let moves = [
        "operator:root user.provisioned user:leaver",
        "operator:root user.lifecycle_changed user:leaver",
        "system:account-removal user.account_removed user:leaver",
    ];
    let rows = identity.audit().await;
    assert_eq!(rows.iter().filter(|row| row.ends_with("user:leaver")).collect::<Vec<_>>(), moves);

    identity.provider.account("unseen", "unseen", true);
    identity.provider.fail_at("/users/*", 503);
    assert_eq!(to(&identity, "unseen", "closed").await.status, 503);
    assert_eq!(
        to(&identity, "leaver", "closed").await.code(),
        "LIFECYCLE_TRANSITION_INVALID",
        "control: not asked"
    );
    identity.provider.answer();
    assert_eq!(to(&identity, "unseen", "closed").await.status, 200);
}

#[tokio::test]
async fn the_last_superadmin_who_can_act_stays_active() {
    let identity = Identity::start().await;
    for subject in ["alice", "bob", "carol"] {
        identity.known(subject).await;
    }
    identity.superadmin("alice").await;
    for state in ["suspended", "closed"] {
        let reply = to(&identity, "alice", state).await;
        assert_eq!((reply.status, reply.code()), (409, "CONFLICT"));
    }
    assert_eq!(to(&identity, "carol", "suspended").await.status, 200, "no superadmin");
    identity.superadmin("bob").await;
    identity.provider.account("bob", "bob", false);
    identity.quick_look().await.expect("a look");
    assert_eq!(to(&identity, "alice", "suspended").await.code(), "CONFLICT", "bob cannot log in");
    identity.provider.account("bob", "bob", true);
    identity.quick_look().await.expect("a look");
    assert_eq!(to(&identity, "alice", "suspended").await.status, 200);
    assert_eq!(to(&identity, "bob", "suspended").await.code(), "CONFLICT");
    assert_eq!(to(&identity, "alice", "closed").await.status, 200, "she can no longer act");
}

#[tokio::test]
async fn of_the_last_two_superadmins_suspended_at_once_one_stays() {
    let identity = Identity::start().await;
    for round in 0..20 {
        let pair = [format!("a{round}"), format!("b{round}")];
        identity.run(sqlx::query("DELETE FROM authz.tuple")).await;
        for subject in &pair {
            identity.known(subject).await;
            identity.superadmin(subject).await;
        }
        let replies =
            together(pair.iter().map(|subject| to(&identity, subject, "suspended")).collect()).await;
        let mut statuses: Vec<u16> = replies.iter().map(|reply| reply.status).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409], "round {round}");
    }
}
