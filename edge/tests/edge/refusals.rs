//! Requests that the gateway refuses by itself: identity headers, ambiguous paths, unknown routes and methods, sizes;
//! and CORS on every answer.

use bytes::Bytes;
use http::Method;
use http_body::Frame;

use crate::client::{BOTH, streamed};
use crate::world::World;

#[tokio::test]
async fn identity_headers_are_refused_on_every_path_before_anything_else() {
    let world = World::start().await;
    for version in BOTH {
        for name in ["x-user-id", "X-User-Sub", "x_user_id", "x.user.id"] {
            let name = name.to_ascii_lowercase();
            for path in
                ["/api/org/me/companies", "/api/timesheet/v1/x", "/realms/platform/x", "/healthz", "/nowhere"]
            {
                let reply = world.send(version, Method::GET, path, &[(&name, "root")], "").await;
                assert_eq!(
                    (reply.status, reply.code().as_str()),
                    (400, "BAD_REQUEST"),
                    "{version:?} {name} {path}"
                );
            }
        }
    }
    assert!(world.backend.seen("/realms").is_empty());
}

#[tokio::test]
async fn a_trailer_that_claims_an_identity_is_refused() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    for version in BOTH {
        let trailers = http::HeaderMap::from_iter([(
            "x-user-id".parse().expect("a name"),
            "root".parse().expect("a value"),
        )]);
        let frames = vec![Frame::data(Bytes::from_static(b"{}")), Frame::trailers(trailers)];
        let request = streamed(Method::POST, "/api/timesheet/v1/x", &bearer, frames);
        let reply = world.client(version).await.send(request).await;
        assert_eq!((reply.status, reply.code().as_str()), (400, "BAD_REQUEST"), "{version:?}");
    }
}

#[tokio::test]
async fn no_spelling_of_a_path_leads_behind_the_edge() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let auth = [("authorization", bearer.as_str())];
    for (path, status) in [
        ("/internal/authz/grants", 404),
        ("/api/internal/authz/grants", 404),
        ("/api/../internal/authz/grants", 400),
        ("/api/timesheet/v1/../../../internal/authz/grants", 400),
        ("/api/%2e%2e/internal/authz/grants", 400),
        ("/api%2f..%2finternal/authz/grants", 400),
        ("/api/timesheet%2f..%2fdocs/v1/x", 400),
        ("/api/%74imesheet/v1/x", 400),
        ("/api/org/x/../admin/units", 400),
        ("//internal/authz/grants", 404),
        ("/api/timesheet/v1/%zz", 400),
        ("/api/org/nothing", 404),
        ("/metrics", 404),
        ("/health", 404),
        ("/ready", 404),
    ] {
        let reply = world.get(path, &auth).await;
        assert_eq!(reply.status, status, "{path} {reply:?}");
    }
    for prefix in ["/internal/authz", "/internal/org", "/api"] {
        assert!(world.backend.seen(prefix).is_empty(), "{prefix}");
    }
}

#[tokio::test]
async fn a_wrong_method_names_the_right_ones_and_needs_no_bearer() {
    let world = World::start().await;
    for version in BOTH {
        let reply = world.send(version, Method::PATCH, "/api/org/admin/members", &[], "").await;
        assert_eq!((reply.status, reply.code().as_str()), (405, "METHOD_NOT_ALLOWED"));
        assert_eq!(reply.header("allow"), Some("POST, GET, HEAD"));
    }
}

#[tokio::test]
async fn a_method_that_echoes_the_request_or_begins_http_2_is_refused_in_any_case() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let auth = [("authorization", bearer.as_str())];
    for version in BOTH {
        for method in ["TRACE", "trace", "Trace", "TRACK", "track", "Track", "PRI", "pri"] {
            for path in ["/api/timesheet/v1/x", "/realms/platform/x", "/healthz", "/nowhere"] {
                let method = Method::from_bytes(method.as_bytes()).expect("a method");
                let reply = world.send(version, method.clone(), path, &auth, "").await;
                let allow = reply.header("allow").map(ToOwned::to_owned);
                assert_eq!(
                    (reply.status, reply.code().as_str()),
                    (405, "METHOD_NOT_ALLOWED"),
                    "{method} {path}"
                );
                assert!(
                    allow.is_some_and(|allow| !allow.contains("TRA") && !allow.contains("PRI")),
                    "{method} {path}"
                );
            }
        }
        for other in [&b"TRAC"[..], b"PRIO"] {
            let other = Method::from_bytes(other).expect("a method");
            let reply = world.send(version, other, "/api/timesheet/v1/x", &auth, "").await;
            assert_eq!(reply.status, 200, "any other method is the module's own affair");
        }
    }
    assert!(
        world
            .backend
            .seen("")
            .iter()
            .all(|seen| !["TRACE", "PRI"].contains(&seen.method.to_ascii_uppercase().as_str()))
    );
}

#[tokio::test]
async fn heads_and_paths_past_their_limits_get_the_envelope() {
    let world = World::start().await;
    let long = "x".repeat(17 << 10);
    let huge = "x".repeat(61 << 10);
    let names: Vec<String> = (0..101).map(|number| format!("x-{number}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "1")).collect();
    for version in BOTH {
        for (path, headers, status, code) in [
            (format!("/api/timesheet/{long}"), vec![], 414, "URI_TOO_LONG"),
            ("/healthz".to_owned(), vec![("x-long", huge.as_str())], 431, "HEADERS_TOO_LARGE"),
            ("/healthz".to_owned(), many.clone(), 431, "HEADERS_TOO_LARGE"),
        ] {
            let reply = world.send(version, Method::GET, &path, &headers, "").await;
            assert_eq!((reply.status, reply.code().as_str()), (status, code), "{version:?}");
        }
    }
}

#[tokio::test]
async fn two_hosts_are_refused() {
    let world = World::start().await;
    let reply = world.get("/healthz", &[("host", "a.example"), ("host", "b.example")]).await;
    assert_eq!((reply.status, reply.code().as_str()), (400, "BAD_REQUEST"));
}

/// Request headers that the APIs document and that a browser asks for beforehand.
const SENT: [&str; 7] = [
    "authorization",
    "content-type",
    "idempotency-key",
    "if-match",
    "if-none-match",
    "traceparent",
    "x-correlation-id",
];

/// Headers in which the gateway, the services and the modules inform browser code.
const EXPOSED: [&str; 10] = [
    "content-disposition",
    "etag",
    "idempotency-replayed",
    "location",
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
    "www-authenticate",
    "x-correlation-id",
    "x-result-truncated",
];

#[tokio::test]
async fn an_allowed_origin_may_read_every_answer_and_no_other_may() {
    let world = World::with(&[("PLATFORM_EXTRA_ORIGINS", "https://app.example")]).await;
    for (origin, allowed) in [
        ("https://localhost:8443", true),
        ("https://app.example", true),
        ("https://evil.example", false),
        ("null", false),
    ] {
        let preflight = [("origin", origin), ("access-control-request-method", "POST"), ("x-user-id", "1")];
        let reply =
            world.send(crate::client::Version::H1, Method::OPTIONS, "/api/auth/grants", &preflight, "").await;
        assert_eq!(reply.status, 204, "{origin}");
        assert_eq!(reply.header("access-control-allow-methods").is_some(), allowed, "{origin}");
        let sent = reply.header("access-control-allow-headers").unwrap_or_default();
        for name in SENT {
            assert_eq!(sent.split(", ").any(|one| one == name), allowed, "{origin} {name}");
        }
        for path in ["/api/org/me/companies", "/nowhere", "/healthz"] {
            let reply = world.get(path, &[("origin", origin)]).await;
            assert_eq!(reply.header("access-control-allow-origin"), allowed.then_some(origin), "{path}");
            assert_eq!(reply.header("vary"), Some("Origin"), "{path}");
            let exposed = reply.header("access-control-expose-headers").unwrap_or_default();
            for name in EXPOSED {
                assert_eq!(exposed.split(", ").any(|one| one == name), allowed, "{origin} {path} {name}");
            }
        }
    }
}
