//! The catalog gate, its snapshot, and read-your-writes for the client's own changes.

use std::time::Duration;

use serde_json::json;

use crate::backend::Answer;
use crate::world::{World, snapshot};

const MODULE_ROUTE: &str = "/api/timesheet/v1/companies/1/settings";

#[tokio::test]
async fn the_gate_answers_for_each_state_and_the_module_is_not_called() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let auth = [("authorization", bearer.as_str())];
    world.catalog.send_replace(snapshot(1, "MODULE_DISABLED"));
    until(&world, &auth, "MODULE_DISABLED").await;
    let called_before = world.backend.seen("/api/").len();
    for (revision, state) in
        [(2, "MODULE_NOT_INSTALLED"), (3, "MODULE_DISABLED"), (4, "MODULE_DEPENDENCY_MISSING")]
    {
        world.catalog.send_replace(snapshot(revision, state));
        let reply = until(&world, &auth, state).await;
        assert_eq!(reply["details"]["moduleKey"], "timesheet");
        assert_eq!(reply["details"]["reason"], state);
    }
    for (path, status, code) in [
        ("/api/docs/v1/x", 403, "MODULE_NOT_INSTALLED"),
        ("/api/unheard_of/v1/x", 403, "MODULE_NOT_INSTALLED"),
        ("/api/crm/v1/x", 404, "NOT_FOUND"),
    ] {
        let reply = world.get(path, &auth).await;
        assert_eq!((reply.status, reply.code().as_str()), (status, code), "{path}");
    }
    assert_eq!(
        world.get("/api/crm/v1/x", &auth).await.json()["error"]["details"]["reason"],
        "APP_IS_NOT_PROXIED"
    );
    assert_eq!(world.backend.seen("/api/").len(), called_before);
}

/// Repeats the request until the gate answers with this code; a new snapshot is on its way.
pub(crate) async fn until(world: &World, auth: &[(&str, &str)], code: &str) -> serde_json::Value {
    let asking = async {
        loop {
            let reply = world.get(MODULE_ROUTE, auth).await;
            if reply.status == 403 && reply.code() == code {
                return reply.json()["error"].clone();
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(5), asking).await.expect("the snapshot arrives")
}

#[tokio::test]
async fn without_any_catalog_modules_are_unavailable() {
    let world = World::cold(&[("PLATFORM_REGISTRY_BASE_URL", "http://127.0.0.1:9")]).await;
    let bearer = world.bearer("alice");
    let asking = async {
        loop {
            let reply = world.get(MODULE_ROUTE, &[("authorization", &bearer)]).await;
            if reply.code() != "AUTHORIZATION_UNAVAILABLE" {
                return reply;
            }
        }
    };
    let reply = tokio::time::timeout(Duration::from_secs(5), asking).await.expect("the keys arrive");
    assert_eq!((reply.status, reply.code().as_str()), (503, "MODULE_UNAVAILABLE"));
    assert_eq!(reply.json()["error"]["details"]["reason"], "no_catalog");
}

#[tokio::test]
async fn a_change_is_answered_only_once_this_edge_sees_it() {
    let world = World::start().await;
    let bearer = world.bearer("root");
    let auth = [("authorization", bearer.as_str())];
    world.superadmin(true, "ALLOWED");
    let enabled =
        Answer::WithHeader("x-catalog-revision", "2".to_owned(), json!({"data": {"enabled": false}}));
    world.backend.on_path("/internal/platform/modules/timesheet/disable", enabled);
    let mut client = world.client(crate::client::Version::H1).await;
    let request = crate::client::request(
        http::Method::POST,
        "/api/platform/admin/modules/timesheet/disable",
        &auth,
        "",
    );
    let answer = client.send(request);
    tokio::pin!(answer);
    assert!(
        tokio::time::timeout(Duration::from_millis(300), &mut answer).await.is_err(),
        "the snapshot still lacks the change, so the answer waits"
    );
    world.catalog.send_replace(snapshot(2, "MODULE_DISABLED"));
    let reply = answer.await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("x-catalog-revision"), None, "the header is the edge's own business");
    assert_eq!(world.get(MODULE_ROUTE, &auth).await.code(), "MODULE_DISABLED");
}

#[tokio::test]
async fn a_change_that_never_shows_is_answered_after_two_seconds() {
    let world = World::start().await;
    let bearer = world.bearer("root");
    world.superadmin(true, "ALLOWED");
    let registered = Answer::WithHeader("x-catalog-revision", "99".to_owned(), json!({"data": {}}));
    world.backend.on_path("/internal/platform/apps", registered);
    let began = std::time::Instant::now();
    let reply = world.post("/api/platform/admin/apps", &[("authorization", &bearer)], "{}").await;
    assert_eq!(reply.status, 200);
    assert!(
        (Duration::from_secs(2)..Duration::from_secs(4)).contains(&began.elapsed()),
        "{:?}",
        began.elapsed()
    );
}
