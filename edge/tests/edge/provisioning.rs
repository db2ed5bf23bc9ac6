//! A subject's first request creates its identity record.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::backend::Answer;
use crate::catalog::until;
use crate::world::{PROVISION, World, snapshot};

const ROUTE: &str = "/api/org/me/companies";

#[tokio::test]
async fn parallel_first_requests_ask_identity_once() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let auth = [("authorization", bearer.as_str())];
    let replies = join_all((0..10).map(|_| world.get(ROUTE, &auth))).await;
    assert!(replies.iter().all(|reply| reply.status == 200));
    let asked = world.backend.seen(PROVISION);
    assert_eq!(asked.len(), 1);
    let question: Value = serde_json::from_str(&asked[0].body).expect("JSON");
    assert_eq!(
        question,
        json!({
            "kcSub": "alice", "kind": "user", "email": "one@example.test", "displayName": "Some One",
            "preferredUsername": "alice",
        })
    );
}

#[tokio::test]
async fn a_service_account_is_provisioned_as_one() {
    let world = World::start().await;
    let changes = json!({"preferred_username": "service-account-crm", "email": null, "name": null});
    let bearer = world.bearer_with("s1", &changes);
    assert_eq!(world.get(ROUTE, &[("authorization", &bearer)]).await.status, 200);
    let question: Value = serde_json::from_str(&world.backend.seen(PROVISION)[0].body).expect("JSON");
    assert_eq!(
        question,
        json!({"kcSub": "s1", "kind": "service", "preferredUsername": "service-account-crm"})
    );
}

#[tokio::test]
async fn a_failure_refuses_and_is_not_remembered() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let auth = [("authorization", bearer.as_str())];
    for answer in [
        Answer::Json(500, json!({})),
        Answer::Raw(200, ""),
        Answer::Json(200, json!({"data": {"kcSub": "someone else"}})),
    ] {
        world.backend.on_path(PROVISION, answer);
        let reply = world.get(ROUTE, &auth).await;
        assert_eq!((reply.status, reply.code().as_str()), (503, "AUTHORIZATION_UNAVAILABLE"));
        assert_eq!(reply.json()["error"]["details"]["dependency"], "identity");
    }
    world.backend.on_path(PROVISION, Answer::Json(200, json!({"data": {"kcSub": "alice"}})));
    assert_eq!(world.get(ROUTE, &auth).await.status, 200);
    assert_eq!(world.get(ROUTE, &auth).await.status, 200);
    assert_eq!(world.backend.seen(PROVISION).len(), 4);
}

#[tokio::test]
async fn capabilities_and_catalog_answer_whatever_identity_does() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    world.backend.on_path(PROVISION, Answer::Hang);
    for route in ["/api/platform/capabilities", "/api/platform/catalog", "/api/platform/capabilities/docs"] {
        let began = Instant::now();
        let reply = world.get(route, &[("authorization", &bearer)]).await;
        assert_eq!(reply.status, 200, "{route}");
        assert!(began.elapsed() < Duration::from_secs(2), "{route}: {:?}", began.elapsed());
    }
    assert_eq!(world.backend.seen(PROVISION).len(), 1, "one question serves all who wait");
}

#[tokio::test]
async fn subjects_are_provisioned_anew_when_the_database_was_restored() {
    let world = World::start().await;
    let alice = world.bearer("alice");
    let auth = [("authorization", alice.as_str())];
    let asked = || world.backend.seen(PROVISION).len();
    assert_eq!(world.get(ROUTE, &auth).await.status, 200);
    assert_eq!(asked(), 1);
    let disabled = |revision| snapshot(revision, "MODULE_DISABLED");
    let lacking = |revision| snapshot(revision, "MODULE_DEPENDENCY_MISSING");
    let of =
        |snapshot: String, edition: &str| snapshot.replacen('{', &format!("{{\"edition\":\"{edition}\","), 1);
    for (line, code, wanted, why) in [
        (of(disabled(3), "3 a"), "MODULE_DISABLED", 1, "a change"),
        (of(lacking(3), "3 b"), "MODULE_DEPENDENCY_MISSING", 2, "another edition of the same revision"),
        (of(disabled(2), "2 b"), "MODULE_DISABLED", 3, "a lower revision"),
        (of(lacking(4), "4 b"), "MODULE_DEPENDENCY_MISSING", 3, "a change after it"),
    ] {
        world.catalog.send_replace(line);
        until(&world, &auth, code).await;
        assert_eq!(world.get(ROUTE, &auth).await.status, 200, "after {why}");
        assert_eq!(asked(), wanted, "after {why}");
    }
}
