//! Direct access to org's port, without the gateway: administration routes are open only to superadmins that authz
//! confirms, operators' routes only to the operator's credential.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use serde_json::{Value, json};

use testkit::until;

use crate::guards::admin_routes;
use crate::support::{ADMIN, OPERATOR, Org, ROLE, made, role};

const ID: &str = "018f0000-0000-7000-8000-000000000000";

#[tokio::test]
async fn an_administration_route_asks_for_the_platform_role_of_its_bearer_every_time() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let rows = org.audit().await;
    org.authz.answer("GET", ROLE, 200, role(false, "PLATFORM_ROLE_REQUIRED"));
    let before = org.authz.requests().len();
    for (method, path) in admin_routes() {
        let reply = org.send(method.clone(), &path.replace(ID, &company), Some(json!({}))).await;
        assert_eq!((reply.status, reply.code()), (403, "PLATFORM_ROLE_REQUIRED"), "{method} {path}");
        assert_eq!(reply.body["error"]["details"]["reason"], "PLATFORM_ROLE_REQUIRED");
    }
    let asked = org.authz.requests().split_off(before);
    assert_eq!(asked.len(), admin_routes().len(), "one request each");
    assert!(asked.iter().all(|asked| asked.path == format!("/internal/authz/superadmin/{ADMIN}")));
    org.authz.answer("GET", ROLE, 200, role(false, "USER_LIFECYCLE_DISABLED"));
    let member = json!({ "companyId": company, "code": "M1", "displayName": "M" });
    let reply = org.post("/internal/org/admin/members", member.clone()).await;
    assert_eq!((reply.status, reply.code()), (403, "AUTHORIZATION_DENIED"));
    assert_eq!(org.audit().await, rows, "what is refused changes nothing");
    org.authz.answer("GET", ROLE, 200, role(true, "ALLOWED"));
    assert_eq!(org.post("/internal/org/admin/members", member).await.status, 201);
}

/// A successful request for each administration route that makes a change.
async fn changes(org: &Org) -> Vec<(Method, String, Value)> {
    let company = org.company("ACME").await;
    let (member, linked, joined) = (
        org.member(&company, "M1").await,
        org.member(&company, "M2").await,
        org.member(&company, "M3").await,
    );
    assert_eq!(org.link(&linked, "linked").await.status, 200);
    let (free, held) = (org.position(&company, "P1").await, org.position(&company, "P2").await);
    let (group, other) = (org.group(&company, "G1").await, org.group(&company, "G2").await);
    let of = |tail: String| format!("/internal/org/admin{tail}");
    let holding =
        org.post(&of(format!("/positions/{held}/assignments")), json!({ "memberId": linked })).await;
    let assignment = made(&holding);
    let joining = org.post(&of(format!("/groups/{other}/members")), json!({ "memberId": joined })).await;
    assert_eq!(joining.status, 201, "{}", joining.text);
    let below = json!({ "typeKey": "department", "parentId": company, "code": "D", "name": "D" });
    [
        (Method::POST, "/units".to_owned(), json!({ "typeKey": "company", "code": "NEW", "name": "New" })),
        (Method::POST, "/units".to_owned(), below),
        (
            Method::POST,
            "/members".to_owned(),
            json!({ "companyId": company, "code": "M4", "displayName": "M" }),
        ),
        (Method::PUT, format!("/members/{member}"), json!({ "displayName": "Other" })),
        (Method::POST, format!("/members/{member}/link-user"), json!({ "kcSub": "bob" })),
        (Method::DELETE, format!("/members/{linked}/link-user"), Value::Null),
        (
            Method::POST,
            format!("/companies/{company}/positions"),
            json!({ "code": "P3", "title": "P", "orgUnitId": company }),
        ),
        (Method::POST, format!("/positions/{free}/assignments"), json!({ "memberId": member })),
        (Method::POST, format!("/assignments/{assignment}/end"), Value::Null),
        (Method::POST, format!("/companies/{company}/groups"), json!({ "code": "G3", "name": "G" })),
        (Method::POST, format!("/groups/{group}/members"), json!({ "memberId": member })),
        (Method::DELETE, format!("/groups/{other}/members/{joined}"), Value::Null),
    ]
    .map(|(method, tail, body)| (method, of(tail), body))
    .into()
}

/// The path with every id replaced by [`ID`].
fn pattern(path: &str) -> String {
    let segment =
        |part: &str| if uuid::Uuid::parse_str(part).is_ok() { ID.to_owned() } else { part.to_owned() };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}

/// The role is revoked between authz's first response and the commit.
#[tokio::test]
async fn no_change_is_committed_once_the_role_has_gone() {
    let org = Org::start().await;
    let requests = changes(&org).await;
    let mut routes: Vec<_> = admin_routes().into_iter().filter(|(method, _)| method != Method::GET).collect();
    routes.retain(|(method, path)| !requests.iter().any(|(m, p, _)| m == method && pattern(p) == *path));
    assert_eq!(routes, [], "not tried");
    let rows = org.audit().await;
    let tuples = org.tuples("org").await;
    for (later, status, code) in [
        (Some(role(false, "PLATFORM_ROLE_REQUIRED")), 403, "PLATFORM_ROLE_REQUIRED"),
        (Some(role(false, "USER_LIFECYCLE_DISABLED")), 403, "AUTHORIZATION_DENIED"),
        (None, 503, "AUTHORIZATION_UNAVAILABLE"),
    ] {
        for (method, path, body) in &requests {
            let (asked, later) = (AtomicUsize::new(0), later.clone());
            org.authz.answer_with("GET", ROLE, move |_| {
                match (asked.fetch_add(1, Ordering::Relaxed), &later) {
                    (0, _) => (200, role(true, "ALLOWED")),
                    (_, Some(later)) => (200, later.clone()),
                    (_, None) => (503, json!({ "error": {} })),
                }
            });
            let body = Some(body.clone()).filter(|body| !body.is_null());
            let reply = org.send(method.clone(), path, body).await;
            assert_eq!((reply.status, reply.code()), (status, code), "{method} {path} {}", reply.text);
        }
    }
    assert_eq!((org.audit().await, org.tuples("org").await), (rows, tuples), "nothing was changed");
    org.authz.answer("GET", ROLE, 200, role(true, "ALLOWED"));
    for (method, path, body) in requests {
        let reply = org.send(method.clone(), &path, Some(body).filter(|body| !body.is_null())).await;
        assert!([200, 201].contains(&reply.status), "control: {method} {path} {}", reply.text);
    }
}

#[tokio::test]
async fn a_change_that_waits_for_a_lock_is_refused_once_the_role_has_gone() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    for (held, status) in [(true, 201), (false, 403)] {
        org.authz.answer("GET", ROLE, 200, role(true, "ALLOWED"));
        let mut holding = org.owner.begin().await.expect("a transaction");
        let lock = "SELECT FROM org.units FOR UPDATE";
        sqlx::query(lock).execute(&mut *holding).await.expect("held");
        let body = json!({ "companyId": company, "code": format!("M{status}"), "displayName": "M" });
        let (reply, ()) = tokio::join!(org.post("/internal/org/admin/members", body), async {
            until("the request waits", || async {
                let waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
                sqlx::query_scalar::<_, i64>(waiting).fetch_one(&org.owner).await.expect("activity") > 0
            })
            .await;
            org.authz.answer("GET", ROLE, 200, role(held, "PLATFORM_ROLE_REQUIRED"));
            holding.rollback().await.expect("let go");
        });
        assert_eq!(reply.status, status, "{}", reply.text);
    }
}

#[tokio::test]
async fn without_a_whole_answer_of_authz_nobody_is_a_superadmin() {
    let org = Org::start().await;
    let company = json!({ "typeKey": "company", "code": "X", "name": "X" });
    for (what, status, body) in [
        ("503", 503, json!({ "error": {} })),
        ("404", 404, role(true, "ALLOWED")),
        ("201", 201, role(true, "ALLOWED")),
        ("no data", 200, json!({})),
        ("a text", 200, json!({ "data": { "held": "true", "reason": "ALLOWED" } })),
        ("no held", 200, json!({ "data": { "reason": "ALLOWED" } })),
    ] {
        org.authz.answer("GET", ROLE, status, body);
        let reply = org.post("/internal/org/admin/units", company.clone()).await;
        assert_eq!((reply.status, reply.code()), (503, "AUTHORIZATION_UNAVAILABLE"), "{what}");
        assert_eq!(reply.body["error"]["details"]["dependency"], "authz", "{what}");
    }
    org.authz.close("GET", ROLE);
    assert_eq!(org.post("/internal/org/admin/units", company.clone()).await.status, 503);
    assert!(org.audit().await.is_empty());
    org.authz.answer("GET", ROLE, 200, role(true, "ALLOWED"));
    assert_eq!(org.post("/internal/org/admin/units", company).await.status, 201);
}

#[tokio::test]
async fn operators_routes_open_to_the_operators_credential_and_to_nothing_else() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let rows = org.audit().await;
    let admin = format!("/internal/org/companies/{company}/admins/alice");
    let activity = format!("/internal/org/units/{company}/activity");
    let routes: [(&str, Value); 2] = [
        (&admin, json!({ "isAdmin": true, "operator": "root" })),
        (&activity, json!({ "isActive": false, "operator": "root" })),
    ];
    for (path, body) in &routes {
        let call = || org.api.call(Method::PUT, *path).json(body.clone());
        let bare = org.checked("PUT", path, call()).await;
        assert_eq!((bare.status, bare.code()), (401, "AUTH_TOKEN_MISSING"), "{path}");
        let (user, longer) = (org.issuer.issue("alice"), format!("{OPERATOR}x"));
        for wrong in [org.token.as_str(), user.as_str(), longer.as_str(), &OPERATOR[1..], "x"] {
            let reply = org.checked("PUT", path, call().bearer(wrong)).await;
            assert_eq!((reply.status, reply.code()), (401, "AUTH_TOKEN_INVALID"), "{path} {wrong}");
        }
    }
    assert_eq!(org.audit().await, rows, "what is refused changes nothing");
    for (path, body) in routes {
        assert_eq!(org.operate(path, body).await.status, 200, "{path}");
    }
    let reply = org
        .checked(
            "GET",
            "/internal/org/admin/units/x",
            org.api.get("/internal/org/admin/units/x").bearer(OPERATOR),
        )
        .await;
    assert_eq!(reply.status, 401, "the credential is not a user's bearer");
}
