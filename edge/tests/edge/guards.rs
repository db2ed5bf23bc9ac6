//! The guards of the route table: who passes, who does not, and that no request passes if its question gets no answer.

use serde_json::json;

use crate::backend::Answer;
use crate::world::{COMPANY, PROVISION, SUPERADMIN, World};

/// Units are created by superadmins alone.
const ADMIN_ROUTE: &str = "/api/org/admin/units";
/// A read of org, below `/api/org/`.
const UNIT: &str = "admin/units/01890a5d-ac96-774b-bcce-b302099a8057";

#[tokio::test]
async fn a_superadmin_is_asked_for_afresh_every_time() {
    let world = World::start().await;
    let bearer = world.bearer("alice/of the realm");
    let auth = [("authorization", bearer.as_str())];
    world.superadmin(true, "ALLOWED");
    assert_eq!(world.post(ADMIN_ROUTE, &auth, "{}").await.status, 200);
    world.superadmin(false, "PLATFORM_ROLE_REQUIRED");
    let reply = world.post(ADMIN_ROUTE, &auth, "{}").await;
    assert_eq!((reply.status, reply.code().as_str()), (403, "PLATFORM_ROLE_REQUIRED"));
    assert_eq!(reply.json()["error"]["details"]["reason"], "PLATFORM_ROLE_REQUIRED");
    world.superadmin(false, "USER_LIFECYCLE_DISABLED");
    let reply = world.post(ADMIN_ROUTE, &auth, "{}").await;
    assert_eq!((reply.status, reply.code().as_str()), (403, "AUTHORIZATION_DENIED"));
    assert_eq!(reply.json()["error"]["details"]["reason"], "USER_LIFECYCLE_DISABLED");
    let asked = world.backend.seen(SUPERADMIN);
    assert_eq!(asked.len(), 3);
    assert_eq!(asked[0].path_and_query, format!("{SUPERADMIN}alice%2Fof%20the%20realm"));
}

#[tokio::test]
async fn no_answer_is_never_a_yes() {
    let world = World::with(&[("PLATFORM_MODULE_RESPONSE_HEADER_TIMEOUT", "150ms")]).await;
    let bearer = world.bearer("alice");
    let auth = [("authorization", bearer.as_str())];
    let held = json!({"data": {"held": true, "reason": "ALLOWED"}});
    for (what, answer) in [
        ("500", Answer::Json(500, held.clone())),
        ("201", Answer::Json(201, held.clone())),
        ("404", Answer::Json(404, held)),
        ("empty 200", Answer::Raw(200, "")),
        ("garbage", Answer::Raw(200, "<html>held: true</html>")),
        ("no held", Answer::Json(200, json!({"data": {"reason": "ALLOWED"}}))),
        ("held as text", Answer::Json(200, json!({"data": {"held": "true", "reason": "ALLOWED"}}))),
        ("half", Answer::Raw(200, "{\"data\":{\"held\":true,")),
        ("hung", Answer::Hang),
    ] {
        world.backend.on_path(SUPERADMIN, answer);
        let metrics = world.get("/api/platform/metrics", &auth).await;
        for reply in [world.post(ADMIN_ROUTE, &auth, "{}").await, metrics] {
            assert_eq!((reply.status, reply.code().as_str()), (503, "AUTHORIZATION_UNAVAILABLE"), "{what}");
            assert_eq!(reply.json()["error"]["details"]["dependency"], "authz", "{what}");
        }
    }
    assert!(world.backend.seen("/internal/org/admin").is_empty());
}

#[tokio::test]
async fn authz_out_of_reach_refuses() {
    let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", closed.local_addr().expect("an address"));
    drop(closed);
    let world = World::with(&[("PLATFORM_AUTHZ_BASE_URL", &address)]).await;
    let bearer = world.bearer("alice");
    for route in ["/api/platform/metrics", "/api/auth/effective-access/summary"] {
        let reply = world.get(route, &[("authorization", &bearer)]).await;
        assert_eq!((reply.status, reply.code().as_str()), (503, "AUTHORIZATION_UNAVAILABLE"));
        assert_eq!(reply.json()["error"]["details"]["reason"], "connect_refused");
    }
}

/// org asks authz itself, and its answer is the client's; `services/org/tests/api` holds its guards.
#[tokio::test]
async fn reads_of_org_go_to_org_without_a_question() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let auth = [("authorization", bearer.as_str())];
    world.superadmin(false, "PLATFORM_ROLE_REQUIRED");
    let directory = format!("companies/{COMPANY}/members?q=a");
    for route in [UNIT, directory.as_str()] {
        let internal = format!("/internal/org/{route}");
        let reply = world.get(&format!("/api/org/{route}"), &auth).await;
        assert_eq!((reply.status, reply.json()["data"]["path"].clone()), (200, json!(internal)));
        let refusal = json!({"error": {"code": "FORBIDDEN", "message": "no", "details": {"reason": "org"}}});
        world
            .backend
            .on_path(internal.split('?').next().expect("a path"), Answer::Json(403, refusal.clone()));
        let reply = world.get(&format!("/api/org/{route}"), &auth).await;
        assert_eq!((reply.status, reply.json()), (403, refusal));
        let seen = world.backend.seen(internal.split('?').next().expect("a path"));
        assert!(seen.iter().all(|seen| seen.headers["authorization"] == bearer.as_str()), "org verifies it");
        assert_eq!(world.get(&format!("/api/org/{route}"), &[]).await.status, 401, "without a bearer");
    }
    assert!(world.backend.seen("/internal/authz/").is_empty());
}

#[tokio::test]
async fn every_question_about_a_subject_carries_the_bearer_that_was_verified() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    // Another spelling of the scheme is the same bearer.
    let spelled = bearer.replacen("Bearer ", "bearer  ", 1);
    let auth = [("authorization", spelled.as_str())];
    world.superadmin(true, "ALLOWED");
    assert_eq!(world.post(ADMIN_ROUTE, &auth, "{}").await.status, 200);
    for question in [PROVISION, SUPERADMIN] {
        let seen = world.backend.seen(question);
        let sent: Vec<_> = seen.iter().map(|seen| seen.headers.get_all("authorization").iter()).collect();
        let sent: Vec<Vec<_>> = sent.into_iter().map(Iterator::collect).collect();
        assert_eq!(sent, [[bearer.as_str()]], "{question}");
    }
}

/// Returns `(status, reason)` for both routes of apps' backends.
async fn as_backend(world: &World, subject: &str, client: Option<&str>) -> [(u16, String); 2] {
    let bearer = world.bearer_with(subject, &json!({ "azp": client }));
    world.backend.on_path(PROVISION, Answer::Json(200, json!({"data": {"kcSub": subject}})));
    let auth = [("authorization", bearer.as_str())];
    let by_subject = format!("/api/org/companies/{COMPANY}/members/by-subject/bob");
    let replies = [world.post("/api/auth/grants", &auth, "{}").await, world.get(&by_subject, &auth).await];
    replies.map(|reply| {
        let reason = reply.json()["error"]["details"]["reason"].as_str().unwrap_or_default().to_owned();
        (reply.status, reason)
    })
}

#[tokio::test]
async fn only_the_service_account_of_a_registered_app_is_its_backend() {
    let world = World::start().await;
    let (passed, refused) = ((200, String::new()), (403, "PLATFORM_ROLE_REQUIRED".to_owned()));
    world.superadmin(false, "PLATFORM_ROLE_REQUIRED");
    let backend = as_backend(&world, "service-1", Some("crm-backend")).await;
    assert_eq!(backend, [passed.clone(), passed.clone()]);
    for (what, subject, client) in [
        ("a user's token of the app's client", "alice", Some("crm-backend")),
        ("the account with another client", "service-1", Some("platform-frontend")),
        ("the account with another app's client", "service-1", Some("erp-backend")),
        ("an account that is still unknown", "service-2", Some("erp-backend")),
        ("an account of a registry that tells no subjects", "service-3", Some("old-backend")),
        ("another client", "service-4", Some("other-backend")),
        ("no client", "alice", None),
    ] {
        world.superadmin(false, "PLATFORM_ROLE_REQUIRED");
        let found = as_backend(&world, subject, client).await;
        assert_eq!(found, [refused.clone(), refused.clone()], "{what}");
        world.superadmin(true, "ALLOWED");
        let found = as_backend(&world, subject, client).await;
        assert_eq!(found, [passed.clone(), passed.clone()], "{what}, as a superadmin");
    }
}

#[tokio::test]
async fn a_backend_whose_account_may_not_act_is_refused_and_without_authz_nobody_passes() {
    let world = World::start().await;
    for reason in ["USER_LIFECYCLE_DISABLED", "IDP_DISABLED", "AUTH_USER_NOT_FOUND"] {
        world.superadmin(false, reason);
        let found = as_backend(&world, "service-1", Some("crm-backend")).await;
        assert_eq!(found, [(403, reason.to_owned()), (403, reason.to_owned())]);
    }
    world.superadmin(false, "PLATFORM_ROLE_REQUIRED");
    let found = as_backend(&world, "service-1", Some("crm-backend")).await;
    assert_eq!(found.map(|(status, _)| status), [200, 200], "and again at once when it may");
    assert_eq!(world.backend.seen(SUPERADMIN).len(), 8, "asked every time, once");
    world.backend.on_path(SUPERADMIN, Answer::Json(503, json!({"error": {}})));
    let found = as_backend(&world, "service-1", Some("crm-backend")).await;
    assert_eq!(found.map(|(status, _)| status), [503, 503]);
}
