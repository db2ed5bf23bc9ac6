//! Requests to the identity provider: its prefixes, without a bearer, and never its administration.

use http::Method;

use crate::backend::Answer;
use crate::world::World;

#[tokio::test]
async fn the_prefixes_lead_to_the_provider_without_a_bearer() {
    let world = World::start().await;
    for (path, internal) in [
        (
            "/realms/platform/protocol/openid-connect/auth?x=1",
            "/realms/platform/protocol/openid-connect/auth?x=1",
        ),
        ("/auth/realms/platform/x", "/realms/platform/x"),
        ("/resources/a/login.css", "/resources/a/login.css"),
    ] {
        let reply = world.get(path, &[("cookie", "a=b")]).await;
        assert_eq!(reply.json()["data"]["path"], internal);
    }
    let seen = &world.backend.seen("/realms")[0].headers;
    assert_eq!(
        (&seen["x-forwarded-proto"], &seen["x-forwarded-host"], &seen["cookie"]),
        (
            &"https".parse().expect("a value"),
            &"localhost:8443".parse().expect("a value"),
            &"a=b".parse().expect("a value")
        )
    );
    assert_eq!(
        world.post("/realms/platform/token", &[], "grant_type=x").await.json()["data"]["body"],
        "grant_type=x"
    );
}

#[tokio::test]
async fn the_providers_own_parts_do_not_exist() {
    let world = World::start().await;
    for path in [
        "/auth/admin/realms/platform/users",
        "/auth/ADMIN/x",
        "/auth/%61dmin/x",
        "/auth//admin",
        "/auth/realms/master/x",
        "/realms/master/protocol/openid-connect/token",
        "/realms/x/../master/y",
        "/auth/metrics",
        "/auth/health/ready",
        "/auth/ready",
        "/auth/ready/",
        "/auth/ready/x",
        "/auth/READY",
        "/auth/%72eady",
        "/auth/%2572eady",
        "/auth//ready",
        "/auth/ready;x=1",
        "/auth/x/../ready",
        "/auth/x%2f..%2fready",
        "/auth/ready%20",
        "/realms/..%2fadmin/x",
    ] {
        let reply = world.get(path, &[]).await;
        assert_eq!((reply.status, reply.code().as_str()), (404, "NOT_FOUND"), "{path}");
    }
    for prefix in ["/admin", "/realms", "/metrics", "/health", "/ready", "/READY", "/%", "//"] {
        assert!(world.backend.seen(prefix).is_empty(), "{prefix}");
    }
    for (honest, internal) in [
        ("/auth/realms/platform/ready", "/realms/platform/ready"),
        ("/auth/readiness", "/readiness"),
        ("/resources/ready", "/resources/ready"),
    ] {
        let reply = world.get(honest, &[]).await;
        assert_eq!((reply.status, reply.json()["data"]["path"].as_str()), (200, Some(internal)), "{honest}");
    }
}

#[tokio::test]
async fn a_provider_that_is_away_is_named() {
    let world = World::with(&[("PLATFORM_IDP_URL", "http://127.0.0.1:9")]).await;
    let reply = world.send(crate::client::Version::H2, Method::GET, "/realms/platform/x", &[], "").await;
    assert_eq!((reply.status, reply.code().as_str()), (503, "AUTHORIZATION_UNAVAILABLE"));
    assert_eq!(reply.json()["error"]["details"]["dependency"], "idp");
}

#[tokio::test]
async fn the_providers_own_idea_of_origins_does_not_count() {
    let world = World::start().await;
    let open = Answer::WithHeader("access-control-allow-origin", "*".to_owned(), serde_json::json!({}));
    world.backend.on_path("/realms/platform/token", open);
    let reply = world.get("/realms/platform/token", &[("origin", "https://evil.example")]).await;
    assert_eq!(reply.header("access-control-allow-origin"), None);
}
