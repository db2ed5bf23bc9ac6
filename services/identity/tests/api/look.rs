//! Looks at the provider.

use http::Method;
use identity::look::Scope;
use serde_json::{Value, json};

use testkit::until;

use crate::provider::Provider;
use crate::support::{Identity, OPERATOR, QUICK};

#[tokio::test]
async fn a_disabled_account_is_seen_and_comes_back() {
    let identity = Identity::start().await;
    identity.known("alice").await;
    identity.known("bob").await;
    assert_eq!(identity.quick_look().await.expect("a look"), 0);
    identity.provider.account("alice", "alice", false);
    assert_eq!(identity.quick_look().await.expect("a look"), 1);
    assert_eq!((identity.is_enabled("alice").await, identity.is_enabled("bob").await), (false, true));
    assert_eq!(identity.quick_look().await.expect("a look"), 0, "seen already");
    identity.provider.account("alice", "alice", true);
    assert_eq!(identity.quick_look().await.expect("a look"), 1);
    assert!(identity.is_enabled("alice").await);
    let rows = identity.audit().await;
    let seen = "system:idp-look user.idp_state_changed user:alice";
    assert_eq!(rows.iter().filter(|row| *row == seen).count(), 2);
    assert_eq!(rows.len(), 4);
}

#[tokio::test]
async fn an_operators_look_at_one_account_sees_it_at_once_and_no_other() {
    let identity = Identity::start().await;
    for subject in ["alice", "bob"] {
        identity.known(subject).await;
        identity.provider.account(subject, subject, false);
    }
    let path = |subject: &str| format!("/internal/identity/users/{subject}/look");
    let look = async |subject| {
        let path = path(subject);
        identity.checked("POST", &path, identity.api.call(Method::POST, &path).bearer(OPERATOR)).await
    };
    let seen = look("alice").await;
    assert_eq!((seen.status, &seen.data()["idpEnabled"]), (200, &json!(false)), "{}", seen.text);
    assert_eq!((identity.is_enabled("alice").await, identity.is_enabled("bob").await), (false, true));
    assert_eq!(look("nobody").await.code(), "NOT_FOUND");
    identity.provider.account("alice", "alice", true);
    assert_eq!(look("alice").await.data()["idpEnabled"], true);
}

#[tokio::test]
async fn a_deleted_account_is_disabled_by_its_event_or_by_a_full_look() {
    let identity = Identity::start().await;
    for subject in ["alice", "bob", "carol"] {
        identity.known(subject).await;
    }
    identity.provider.delete("alice");
    assert_eq!(identity.quick_look().await.expect("a look"), 1);
    assert!(!identity.is_enabled("alice").await);
    identity.provider.delete("bob");
    assert_eq!(identity.look(Scope::Full).await.expect("a look"), 1);
    assert!(!identity.is_enabled("bob").await);
    let asked = identity.provider.stub.requests().len();
    identity.look(Scope::Full).await.expect("a look");
    let about_the_gone = identity
        .provider
        .stub
        .requests()
        .split_off(asked)
        .iter()
        .any(|request| request.path.ends_with("/alice"));
    assert!(!about_the_gone, "a removed account is not requested forever");
    // Restored at the provider under the same id, as an import does.
    identity.provider.account("bob", "bob", true);
    assert_eq!(identity.look(Scope::Full).await.expect("a look"), 1);
    assert!(identity.is_enabled("bob").await);
}

#[tokio::test]
async fn service_accounts_are_asked_about_though_no_list_has_them() {
    let identity = Identity::start().await;
    identity.provider.account("crm", "service-account-crm", true);
    identity.provision(json!({ "kcSub": "crm", "kind": "service" })).await;
    for scope in [Scope::Full, QUICK] {
        assert_eq!(identity.look(scope).await.expect("a look"), 0);
        identity.provider.account("crm", "service-account-crm", false);
        assert_eq!(identity.look(scope).await.expect("a look"), 1);
        assert!(!identity.is_enabled("crm").await);
        identity.provider.account("crm", "service-account-crm", true);
        assert_eq!(identity.look(scope).await.expect("a look"), 1);
        assert!(identity.is_enabled("crm").await);
    }
}

#[tokio::test]
async fn an_incomplete_look_changes_nothing_and_counts_for_nothing() {
    let identity = Identity::start().await;
    identity.known("alice").await;
    identity.known("bob").await;
    identity.provider.account("bob", "bob", false);
    identity.quick_look().await.expect("a look");
    identity.provider.account("alice", "alice", false);
    identity.provider.account("bob", "bob", true);
    identity.age_look(100.0).await;
    // The list arrives, but then the events, or the answer about bob, do not.
    for path in ["/users", "/users/*", "/admin-events"] {
        for status in [500, 401, 403, 204] {
            identity.provider.answer();
            identity.provider.fail_at(path, status);
            assert!(identity.quick_look().await.is_err(), "{path} {status}");
        }
    }
    assert!(identity.look_age().await >= 100.0);
    assert_eq!((identity.is_enabled("alice").await, identity.is_enabled("bob").await), (true, false));
    identity.provider.answer();
    assert_eq!(identity.quick_look().await.expect("a look"), 2);
    assert!(identity.look_age().await < 100.0);
    assert_eq!((identity.is_enabled("alice").await, identity.is_enabled("bob").await), (false, true));
}

#[tokio::test]
async fn a_list_that_lies_is_no_answer() {
    let identity = Identity::start().await;
    identity.known("alice").await;
    for answer in [
        json!([{ "id": "alice", "enabled": true, "username": "alice" }]),
        json!([{ "id": "alice", "username": "alice" }]),
        json!({ "error": "no list" }),
        Value::Null,
    ] {
        identity.provider.stub.answer("GET", "/admin/realms/platform/users", 200, answer.clone());
        assert!(identity.quick_look().await.is_err(), "{answer}");
    }
    assert!(identity.is_enabled("alice").await);
}

#[tokio::test]
async fn lists_longer_than_a_page_are_read_to_their_end() {
    let identity = Identity::start().await;
    identity.known("zoe").await;
    for number in 0..1_000 {
        identity.provider.account(&format!("a{number:04}"), &format!("a{number:04}"), false);
    }
    identity.provider.account("zoe", "zoe", false);
    assert_eq!(identity.quick_look().await.expect("a look"), 1);
    assert!(!identity.is_enabled("zoe").await);
    identity.provider.account("zoe", "zoe", true);
    assert_eq!(identity.look(Scope::Full).await.expect("a look"), 1);
    assert!(identity.is_enabled("zoe").await);
}

#[tokio::test]
async fn a_refused_token_is_fetched_anew_once() {
    let identity = Identity::start().await;
    identity.quick_look().await.expect("a look");
    identity.provider.rotate();
    identity.quick_look().await.expect("a look with a new token");
    let tokens = identity.provider.stub.requests().iter().filter(|request| request.method == "POST").count();
    assert_eq!(tokens, 3, "the service's own look, this one's first token, and the new one");
}

#[tokio::test]
async fn the_loop_looks_at_once_goes_on_and_heals() {
    let provider = Provider::start().await;
    provider.fail(500);
    let identity = Identity::spawn(provider, "50ms").await;
    let waiting = identity.provider.stub.clone();
    until("some tries", || async { waiting.requests().len() > 4 }).await;
    assert_eq!(identity.looks().await, 0);
    assert_eq!(identity.api.get("/ready").send().await.status, 200, "ready needs only the database");
    assert_eq!(identity.get("/internal/identity/users/alice/state").await.status, 503);
    identity.provider.answer();
    until("a look", || async { identity.looks().await == 1 }).await;
    identity.known("alice").await;
    identity.provider.account("alice", "alice", false);
    until("alice is disabled", || async { !identity.is_enabled("alice").await }).await;
    identity.provider.account("alice", "alice", true);
    until("alice is back", || async { identity.is_enabled("alice").await }).await;
    identity.provider.delete("alice");
    until("alice is gone", || async { !identity.is_enabled("alice").await }).await;
}

#[tokio::test]
async fn a_look_in_the_future_is_none_and_the_next_one_replaces_it() {
    let identity = Identity::start().await;
    identity.known("alice").await;
    identity.age_look(-3_600.0).await;
    assert_eq!(identity.get("/internal/identity/users/alice/state").await.status, 503);
    identity.quick_look().await.expect("a look");
    assert!((0.0..60.0).contains(&identity.look_age().await), "not in an hour");
    assert_eq!(identity.get("/internal/identity/users/alice/state").await.status, 200);
    // A look that began before the last one does not make it older.
    let age = identity.look_age().await;
    identity.quick_look().await.expect("a look");
    assert!(identity.look_age().await <= age + 60.0);
}

/// The restored record says enabled, although the event that disabled the account was read before.
#[tokio::test]
async fn after_a_restore_every_account_is_asked_about_again() {
    let identity = Identity::start_with("50ms").await;
    identity.known("alice").await;
    identity.provider.delete("alice");
    until("alice is gone", || async { !identity.is_enabled("alice").await }).await;
    identity.provider.forget_deletions();
    for put_back in [
        "UPDATE identity.provider_look SET at = at - interval '1 minute'",
        "DELETE FROM identity.provider_look",
    ] {
        let mut restore = identity.owner.begin().await.expect("a transaction");
        let record = "UPDATE identity.users SET idp_enabled = true, idp_gone_at = NULL";
        for statement in [record, put_back] {
            sqlx::query(statement).execute(&mut *restore).await.expect("the superuser may");
        }
        restore.commit().await.expect("a commit");
        until("alice is gone again", || async { !identity.is_enabled("alice").await }).await;
    }
}

/// The restored time stays, because the process that looks in turn compares it with the last one that it stored.
#[tokio::test]
async fn a_look_during_which_the_database_is_restored_leaves_the_restored_time() {
    let identity = Identity::start().await;
    identity.known("alice").await;
    identity.quick_look().await.expect("a look");
    let seen = identity.last_look().await;
    identity.age_look(60.0).await;
    let restored = identity.last_look().await;
    identity.provider.delete("alice");
    for scope in [QUICK, Scope::Full] {
        assert!(identity.look_after(scope, seen).await.is_err(), "{scope:?}");
        assert_eq!(identity.last_look().await, restored, "{scope:?}");
    }
    identity.look_after(QUICK, restored).await.expect("a look");
    assert!(identity.last_look().await > restored);
    assert!(!identity.is_enabled("alice").await);
}

/// A full look at many accounts takes long, and a page may be missing for long: neither stops the quick looks, and the
/// full look resumes where it was.
#[tokio::test]
async fn quick_looks_go_on_beside_a_look_at_all_accounts() {
    let provider = Provider::start().await;
    for number in 0..1_200 {
        provider.account(&format!("a{number:04}"), &format!("a{number:04}"), true);
    }
    provider.end_list_at(Some(500));
    let identity = Identity::spawn(provider, "50ms").await;
    until("a look", || async { identity.looks().await == 1 }).await;
    identity.known("alice").await;
    identity.known("bob").await;
    identity.provider.account("alice", "alice", false);
    until("alice is disabled", || async { !identity.is_enabled("alice").await }).await;
    assert!(identity.look_age().await < 10.0);
    identity.provider.delete("bob");
    identity.provider.forget_deletions();
    assert!(identity.is_enabled("bob").await, "no list and no event shows it yet");
    let asked = identity.provider.stub.requests().len();
    identity.provider.end_list_at(None);
    until("bob is gone", || async { !identity.is_enabled("bob").await }).await;
    let since = identity.provider.stub.requests().split_off(asked);
    assert!(
        !since.iter().any(|request| request.query.contains("&first=0&max=500")
            && !request.query.contains("enabled")
            && request.path.ends_with("/users")),
        "pages that arrived are not requested again"
    );
}

/// Accounts at the provider and their records.
const MANY: usize = 2_500;

async fn record_many(identity: &Identity) {
    let many = i64::try_from(MANY).expect("a few");
    sqlx::query(
        "INSERT INTO identity.users(kc_sub, kind) SELECT 'a' || lpad(n::text, 4, '0'), 'user' FROM generate_series(0, $1 - 1) n",
    )
    .bind(many)
    .execute(&identity.owner)
    .await
    .expect("records");
}

fn set_many(provider: &Provider, is_enabled: bool) {
    for number in 0..MANY {
        provider.account(&format!("a{number:04}"), &format!("a{number:04}"), is_enabled);
    }
}

#[tokio::test]
async fn a_quick_look_stores_many_changes_in_portions_and_asks_for_a_thousand_by_id() {
    let identity = Identity::start().await;
    record_many(&identity).await;
    set_many(&identity.provider, false);
    assert_eq!(identity.quick_look().await.expect("a look"), MANY);
    let largest: i64 = sqlx::query_scalar(
        "SELECT max(rows) FROM (SELECT count(*) AS rows FROM audit.identity__events GROUP BY xmin::text) AS commits",
    )
    .fetch_one(&identity.owner)
    .await
    .expect("rows");
    assert_eq!(largest, 1_000, "rows in one transaction");
    set_many(&identity.provider, true);
    let asked = identity.provider.stub.requests().len();
    assert_eq!(identity.quick_look().await.expect("a look"), 1_000, "the others stay disabled");
    let since = identity.provider.stub.requests().split_off(asked);
    assert_eq!(since.iter().filter(|request| request.path.contains("/users/a")).count(), 1_000);
    assert_eq!(identity.look(Scope::Full).await.expect("a look"), MANY - 1_000, "by the list");
}

#[tokio::test]
async fn a_quick_look_that_leaves_accounts_disabled_wakes_the_full_look() {
    let identity = Identity::start_with("50ms").await;
    record_many(&identity).await;
    let disabled = || async {
        let count = "SELECT count(*) FROM identity.users WHERE NOT idp_enabled";
        let count = sqlx::query_scalar::<_, i64>(count).fetch_one(&identity.owner).await.expect("a count");
        usize::try_from(count).expect("a few")
    };
    set_many(&identity.provider, false);
    until("all are disabled", || async { disabled().await == MANY }).await;
    let asked = identity.provider.stub.requests().len();
    set_many(&identity.provider, true);
    until("all are enabled", || async { disabled().await == 0 }).await;
    let since = identity.provider.stub.requests().split_off(asked);
    let is_full = |query: &str| query.contains("first=0") && !query.contains("enabled");
    assert!(since.iter().any(|request| request.path.ends_with("/users") && is_full(&request.query)));
}
