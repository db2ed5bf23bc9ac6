//! Rate limits: at the limit and one past it, for a subject and for an address; off by default.

use http::Method;

use crate::client::{BOTH, Reply};
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/x";

fn standing(reply: &Reply) -> (u16, Option<&str>, Option<&str>) {
    (reply.status, reply.header("ratelimit-policy"), reply.header("ratelimit"))
}

#[tokio::test]
async fn without_a_limit_nobody_is_told_of_one() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    for _ in 0..50 {
        let reply = world.get(PATH, &[("authorization", &bearer)]).await;
        assert_eq!(standing(&reply), (200, None, None));
    }
}

#[tokio::test]
async fn a_subject_has_its_requests_and_one_more_is_refused() {
    let world = World::with(&[("PLATFORM_RATE_LIMIT", "4/h")]).await;
    let bearer = world.bearer("alice");
    let auth = [("authorization", bearer.as_str())];
    let policy = Some("\"subject\";q=4;w=3600");
    for (version, remaining) in
        BOTH.into_iter().chain(BOTH).zip(["r=3;t=900", "r=2;t=1800", "r=1;t=2700", "r=0;t=3600"])
    {
        let reply = world.send(version, Method::GET, PATH, &auth, "").await;
        assert_eq!(standing(&reply), (200, policy, Some(format!("\"subject\";{remaining}").as_str())));
    }
    let seen = world.backend.seen(PATH).len();
    for version in BOTH {
        let reply = world.send(version, Method::GET, PATH, &auth, "").await;
        assert_eq!(standing(&reply), (429, policy, Some("\"subject\";r=0;t=900")));
        assert_eq!((reply.code().as_str(), reply.header("retry-after")), ("RATE_LIMITED", Some("900")));
    }
    assert_eq!(world.backend.seen(PATH).len(), seen, "a refused request is not forwarded");
    let other = world.bearer("bob");
    assert_eq!(
        world.get(PATH, &[("authorization", &other)]).await.status,
        200,
        "another subject has its own"
    );
    assert_eq!(world.get("/healthz", &auth).await.status, 200, "probes are not counted");
}

#[tokio::test]
async fn an_address_has_its_requests_without_a_valid_token() {
    let world =
        World::with(&[("PLATFORM_RATE_LIMIT_ANONYMOUS", "3/m"), ("PLATFORM_TRUSTED_PROXIES", "127.0.0.0/8")])
            .await;
    let bearer = world.bearer("alice");
    let from = |address: &'static str| ("x-forwarded-for", address);
    assert_eq!(world.get(PATH, &[from("203.0.113.1")]).await.status, 401);
    assert_eq!(world.get(PATH, &[from("203.0.113.1"), ("authorization", "Bearer a.b.c")]).await.status, 401);
    assert_eq!(world.get("/realms/platform/x", &[from("203.0.113.1")]).await.status, 200);
    for (path, token) in [(PATH, ""), (PATH, "Bearer a.b.c"), ("/realms/platform/x", "")] {
        let reply = world.get(path, &[from("203.0.113.1"), ("authorization", token)]).await;
        assert_eq!((reply.status, reply.code().as_str()), (429, "RATE_LIMITED"), "{path}");
        assert_eq!(reply.header("ratelimit-policy"), Some("\"address\";q=3;w=60"));
        assert!(reply.header("retry-after").is_some_and(|seconds| seconds == "20" || seconds == "19"));
    }
    assert_eq!(
        world.get(PATH, &[from("203.0.113.1"), ("authorization", &bearer)]).await.status,
        200,
        "a token is known"
    );
    assert_eq!(world.get(PATH, &[from("203.0.113.2")]).await.status, 401, "another address has its own");
    assert_eq!(
        world.get(PATH, &[from("203.0.113.1, 203.0.113.3")]).await.status,
        401,
        "only what the proxy saw counts"
    );
}
