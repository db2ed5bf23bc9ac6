//! The guards of the route table: who passes, who does not, and that nobody passes when the question has no answer.

use serde_json::json;

use crate::backend::Answer;
use crate::world::{BY_KCSUB, COMPANY, SUPERADMIN, World};

const ADMIN_ROUTE: &str = "/api/org/admin/units/01890a5d-ac96-774b-bcce-b302099a8057";

fn membership(is_member: bool, is_active: bool) -> Answer {
    Answer::Json(200, json!({"data": {"isMember": is_member, "isActive": is_active, "memberId": null}}))
}

#[tokio::test]
async fn a_superadmin_is_asked_for_afresh_every_time() {
    let world = World::start().await;
    let bearer = world.bearer("alice/of the realm");
    let auth = [("authorization", bearer.as_str())];
    world.superadmin(true, "ALLOWED");
    assert_eq!(world.get(ADMIN_ROUTE, &auth).await.status, 200);
    world.superadmin(false, "PLATFORM_ROLE_REQUIRED");
    let reply = world.get(ADMIN_ROUTE, &auth).await;
    assert_eq!((reply.status, reply.code().as_str()), (403, "PLATFORM_ROLE_REQUIRED"));
    assert_eq!(reply.json()["error"]["details"]["reason"], "PLATFORM_ROLE_REQUIRED");
    world.superadmin(false, "USER_LIFECYCLE_DISABLED");
    let reply = world.get(ADMIN_ROUTE, &auth).await;
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
        for route in [ADMIN_ROUTE, "/api/platform/metrics"] {
            let reply = world.get(route, &auth).await;
            assert_eq!(
                (reply.status, reply.code().as_str()),
                (503, "AUTHORIZATION_UNAVAILABLE"),
                "{what} {route}"
            );
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
    for route in [ADMIN_ROUTE, "/api/auth/effective-access/summary"] {
        let reply = world.get(route, &[("authorization", &bearer)]).await;
        assert_eq!((reply.status, reply.code().as_str()), (503, "AUTHORIZATION_UNAVAILABLE"));
        assert_eq!(reply.json()["error"]["details"]["reason"], "connect_refused");
    }
}

#[tokio::test]
async fn the_directory_is_for_active_members_and_superadmins() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let auth = [("authorization", bearer.as_str())];
    let route = format!("/api/org/companies/{COMPANY}/members?q=a");
    world.superadmin(false, "PLATFORM_ROLE_REQUIRED");
    world.backend.on_path(BY_KCSUB, membership(true, true));
    let reply = world.get(&route, &auth).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.json()["data"]["path"], format!("/internal/org/companies/{COMPANY}/members?q=a"));
    assert!(world.backend.seen(SUPERADMIN).is_empty(), "a member needs no decision");
    for (answer, reason) in [
        (membership(true, false), "COMPANY_ACCESS_BLOCKED"),
        (membership(false, false), "COMPANY_MEMBERSHIP_REQUIRED"),
        (membership(false, true), "COMPANY_MEMBERSHIP_REQUIRED"),
    ] {
        world.backend.on_path(BY_KCSUB, answer);
        let reply = world.get(&route, &auth).await;
        assert_eq!((reply.status, reply.code().as_str()), (403, "FORBIDDEN"));
        assert_eq!(reply.json()["error"]["details"]["reason"], reason);
    }
    world.superadmin(true, "ALLOWED");
    assert_eq!(world.get(&route, &auth).await.status, 200);
    world.backend.on_path(BY_KCSUB, Answer::Raw(200, ""));
    let reply = world.get(&route, &auth).await;
    assert_eq!(reply.json()["error"]["details"]["dependency"], "org");
    let reply = world.get("/api/org/companies/not-a-uuid/members", &auth).await;
    assert_eq!((reply.status, reply.code().as_str()), (400, "BAD_REQUEST"));
}

#[tokio::test]
async fn grants_and_by_subject_are_for_registered_backends_and_superadmins() {
    let world = World::start().await;
    world.superadmin(false, "PLATFORM_ROLE_REQUIRED");
    let app = world.bearer_with("service-1", &json!({"azp": "crm-backend"}));
    let stranger = world.bearer_with("service-2", &json!({"azp": "other-backend"}));
    let nobody = world.bearer_with("alice", &json!({"azp": null}));
    let by_subject = format!("/api/org/companies/{COMPANY}/members/by-subject/bob");
    world
        .backend
        .on_path(crate::world::PROVISION, Answer::Json(200, json!({"data": {"kcSub": "service-1"}})));
    assert_eq!(world.post("/api/auth/grants", &[("authorization", &app)], "{}").await.status, 200);
    assert_eq!(world.get(&by_subject, &[("authorization", &app)]).await.status, 200);
    assert!(world.backend.seen(SUPERADMIN).is_empty());
    for (subject, bearer) in [("service-2", stranger), ("alice", nobody)] {
        world
            .backend
            .on_path(crate::world::PROVISION, Answer::Json(200, json!({"data": {"kcSub": subject}})));
        for reply in [
            world.post("/api/auth/grants", &[("authorization", &bearer)], "{}").await,
            world.get(&by_subject, &[("authorization", &bearer)]).await,
        ] {
            assert_eq!((reply.status, reply.code().as_str()), (403, "FORBIDDEN"));
            assert_eq!(reply.json()["error"]["details"]["reason"], "PLATFORM_ROLE_REQUIRED");
        }
        world.superadmin(true, "ALLOWED");
        assert_eq!(world.post("/api/auth/grants", &[("authorization", &bearer)], "{}").await.status, 200);
        world.superadmin(false, "PLATFORM_ROLE_REQUIRED");
    }
}
