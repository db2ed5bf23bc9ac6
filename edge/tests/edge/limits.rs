//! Connections and handshakes at their limits and one past them: whoever is past it waits, nobody is dropped, and a counter
//! tells of it.

use std::time::Duration;

use http::Method;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::{Client, Version, request};
use crate::raw::SOON;
use crate::world::World;

/// Long enough for a handshake that does not wait.
const PATIENCE: Duration = Duration::from_millis(300);

#[tokio::test]
async fn one_connection_too_many_waits_until_another_has_left() {
    let world = World::with(&[("PLATFORM_GATEWAY_MAX_CONNECTIONS", "2")]).await;
    let bearer = world.bearer("admin");
    let mut first = alive(&world).await;
    let second = alive(&world).await;
    let before = waits(&world, &mut first, &bearer, "connections").await;
    let mut waiting = Box::pin(alive(&world));
    assert!(timeout(PATIENCE, waiting.as_mut()).await.is_err(), "a third one is not served");
    assert_eq!(waits(&world, &mut first, &bearer, "connections").await, before + 1);
    drop(second);
    timeout(SOON, waiting).await.expect("it is served once there is a place");
}

#[tokio::test]
async fn one_handshake_too_many_waits_until_another_has_ended() {
    // One worker takes connections up in the order in which they came; several may overtake each other.
    let limits = [("PLATFORM_GATEWAY_MAX_HANDSHAKES", "2"), ("PLATFORM_GATEWAY_WORKERS", "1")];
    let world = World::with(&limits).await;
    let bearer = world.bearer("admin");
    let mut known = alive(&world).await;
    let silent = connected(&world).await;
    drop(alive(&world).await);
    assert_eq!(waits(&world, &mut known, &bearer, "handshakes").await, 0, "at the limit nobody waits");
    let more = connected(&world).await;
    let mut waiting = Box::pin(alive(&world));
    assert!(timeout(PATIENCE, waiting.as_mut()).await.is_err(), "two that never speak are in its way");
    assert!(waits(&world, &mut known, &bearer, "handshakes").await >= 1);
    drop((silent, more));
    timeout(SOON, waiting).await.expect("it is served once they have left");
}

async fn connected(world: &World) -> TcpStream {
    TcpStream::connect(world.tls).await.expect("a connection")
}

/// A connection that was served.
async fn alive(world: &World) -> Client {
    let mut client = world.client(Version::H1).await;
    let reply = client.send(request(Method::GET, "/healthz", &[], "")).await;
    assert_eq!(reply.status, 200);
    client
}

/// How often somebody waited for this limit, asked on a connection that is there already.
async fn waits(world: &World, client: &mut Client, bearer: &str, limit: &str) -> u64 {
    world.superadmin(true, "ALLOWED");
    let route = request(Method::GET, "/api/platform/metrics", &[("authorization", bearer)], "");
    let reply = client.send(route).await;
    let text = std::str::from_utf8(&reply.body).expect("text");
    let is_it = |line: &&str| {
        line.starts_with("platform_gateway_accept_waits_total{") && line.contains(&format!("\"{limit}\""))
    };
    text.lines()
        .find(is_it)
        .map_or(0, |line| line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number"))
}
