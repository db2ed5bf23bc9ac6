//! 401, 400 and 503 for the bearer, in this order and before any later step.

use std::time::Duration;

use contract::Clock;
use http::Method;
use serde_json::json;

use crate::backend::Answer;
use crate::client::{BOTH, Reply};
use crate::tokens::Signer;
use crate::world::World;

const ROUTE: &str = "/api/org/me/companies";

#[tokio::test]
async fn a_missing_and_a_bad_bearer_have_codes_of_their_own_on_both_protocols() {
    let world = World::start().await;
    let stranger = format!("Bearer {}", Signer::new().token("alice", &json!({})));
    let expired = world.bearer_with("alice", &json!({"exp": 1_000_000_000}));
    let other_audience = world.bearer_with("alice", &json!({"aud": "account", "azp": "platform-api"}));
    for version in BOTH {
        for (header, code) in [
            (None, "AUTH_TOKEN_MISSING"),
            (Some("Basic dTpw"), "AUTH_TOKEN_MISSING"),
            (Some("Bearer nonsense"), "AUTH_TOKEN_INVALID"),
            (Some(stranger.as_str()), "AUTH_TOKEN_INVALID"),
            (Some(expired.as_str()), "AUTH_TOKEN_INVALID"),
            (Some(other_audience.as_str()), "AUTH_TOKEN_INVALID"),
        ] {
            let headers: Vec<_> = header.map(|value| ("authorization", value)).into_iter().collect();
            let reply = world.send(version, Method::GET, ROUTE, &headers, "").await;
            assert_eq!((reply.status, reply.code().as_str()), (401, code), "{version:?} {header:?}");
            let text = String::from_utf8_lossy(&reply.body);
            let expected = header == Some(expired.as_str());
            assert_eq!(text.contains("has expired: get a new one"), expected, "{header:?}: {text}");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        }
    }
    assert!(world.backend.seen("/internal/org").is_empty(), "nothing went behind the edge");
}

#[tokio::test]
async fn a_good_bearer_passes_on_both_protocols_and_the_upstream_gets_it_verbatim() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    for version in BOTH {
        let reply = world.send(version, Method::GET, ROUTE, &[("authorization", &bearer)], "").await;
        assert_eq!(reply.status, 200, "{version:?} {reply:?}");
    }
    for seen in world.backend.seen("/internal/org/me/companies") {
        assert_eq!(seen.headers["authorization"], bearer.as_str());
    }
}

#[tokio::test]
async fn two_authorization_headers_are_a_bad_request() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let reply = world.get(ROUTE, &[("authorization", &bearer), ("authorization", &bearer)]).await;
    assert_eq!((reply.status, reply.code().as_str()), (400, "BAD_REQUEST"));
}

#[tokio::test]
async fn whoever_comes_before_the_first_keys_waits_for_them() {
    let world = World::cold(&[("IDP_JWKS_URL", "http://{backend}/late-keys")]).await;
    let bearer = world.bearer("alice");
    let headers = [("authorization", bearer.as_str())];
    let mut asking = Box::pin(world.get(ROUTE, &headers));
    let patience = Duration::from_millis(200);
    assert!(tokio::time::timeout(patience, asking.as_mut()).await.is_err(), "it waits");
    world.backend.on_path("/late-keys", Answer::Json(200, world.signer.jwks()));
    assert_eq!(asking.await.status, 200);
}

#[tokio::test]
async fn before_the_first_keys_a_bearer_is_neither_good_nor_bad() {
    let world = World::cold(&[("IDP_JWKS_URL", "http://{backend}/no-keys")]).await;
    let bearer = world.bearer("alice");
    let reply = world.get(ROUTE, &[("authorization", &bearer)]).await;
    assert_eq!((reply.status, reply.code().as_str()), (503, "AUTHORIZATION_UNAVAILABLE"));
    assert_eq!(reply.json()["error"]["details"]["dependency"], "idp");
    assert_eq!(world.get(ROUTE, &[]).await.status, 401, "without a bearer");
    let ready = world.get("/readyz", &[]).await;
    assert_eq!((ready.status, ready.json()["data"]["status"].as_str()), (503, Some("starting")));
    assert_eq!(world.get("/healthz", &[]).await.status, 200);
}

/// Repeats the request with the same bearer until it is refused; takes a few seconds at most.
async fn refused(world: &World, bearer: &str) -> Reply {
    let asking = async {
        loop {
            let reply = world.get(ROUTE, &[("authorization", bearer)]).await;
            if reply.status != 200 {
                return reply;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(10), asking).await.expect("the bearer is refused in time")
}

#[tokio::test]
async fn a_bearer_the_edge_knows_is_refused_once_its_key_is_withdrawn() {
    let world = World::with(&[("IDP_JWKS_REFRESH_INTERVAL", "50ms")]).await;
    let bearer = world.bearer("alice");
    for _ in 0..3 {
        assert_eq!(world.get(ROUTE, &[("authorization", &bearer)]).await.status, 200);
    }
    let other = Signer::new();
    world.backend.on_path("/certs", Answer::Json(200, other.jwks()));
    let reply = refused(&world, &bearer).await;
    assert_eq!((reply.status, reply.code().as_str()), (401, "AUTH_TOKEN_INVALID"));
    let fresh = format!("Bearer {}", other.token("alice", &json!({})));
    assert_eq!(world.get(ROUTE, &[("authorization", &fresh)]).await.status, 200);
}

#[tokio::test]
async fn a_bearer_the_edge_knows_is_refused_once_it_has_expired() {
    let world = World::start().await;
    let now = Clock::system().unix_seconds();
    // Valid for two more seconds because of the leeway of 30 s.
    let bearer = world.bearer_with("alice", &json!({"exp": now - 28}));
    assert_eq!(world.get(ROUTE, &[("authorization", &bearer)]).await.status, 200);
    let reply = refused(&world, &bearer).await;
    assert_eq!((reply.status, reply.code().as_str()), (401, "AUTH_TOKEN_INVALID"));
}
