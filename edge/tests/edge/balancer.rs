//! Behind a balancer: the PROXY protocol carries the client's address, and shutdown is announced before the listener
//! closes.

use std::time::Duration;

use http::Method;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::client::{Version, request, tls};
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/x";
const SOON: Duration = Duration::from_secs(5);

/// A balancer's header for a client at 203.0.113.9.
fn introduction() -> Vec<u8> {
    introduction_of(9)
}

/// The same for another client of that network.
fn introduction_of(client: u8) -> Vec<u8> {
    let addresses = [203, 0, 113, client, 10, 0, 0, 1, 0x12, 0x34, 1, 187];
    [&b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"[..], &addresses].concat()
}

#[tokio::test]
async fn a_listed_balancer_says_who_the_client_is() {
    let world = World::cold(&[("PLATFORM_PROXY_PROTOCOL", "127.0.0.0/8")]).await;
    let bearer = world.bearer("alice");
    let answered = async {
        loop {
            let mut stream = TcpStream::connect(world.plain).await.expect("a connection");
            stream.write_all(&introduction()).await.expect("written");
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP/1.1");
            let driver = tokio::spawn(connection);
            let headers = [
                ("authorization", bearer.as_str()),
                ("host", "localhost"),
                ("x-forwarded-for", "198.51.100.1"),
            ];
            let answer =
                sender.send_request(request(Method::GET, PATH, &headers, "")).await.expect("an answer");
            driver.abort();
            if answer.status() == 200 {
                return;
            }
            // The keys and the catalog have not arrived yet.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, answered).await.expect("the edge gets ready");
    assert_eq!(world.backend.seen(PATH)[0].headers["x-forwarded-for"], "203.0.113.9");
}

#[tokio::test]
async fn a_listed_balancer_must_say_it_and_nobody_else_may() {
    let world = World::cold(&[("PLATFORM_PROXY_PROTOCOL", "127.0.0.0/8")]).await;
    for address in [world.plain, world.tls] {
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("written");
        let mut answer = Vec::new();
        let read = timeout(SOON, stream.read_to_end(&mut answer)).await.expect("the edge closes");
        assert!(read.is_err() || answer.is_empty(), "{answer:?}");
    }
    let world = World::start().await;
    let mut stream = TcpStream::connect(world.tls).await.expect("a connection");
    stream.write_all(&introduction()).await.expect("written");
    let mut answer = Vec::new();
    let _reset_or_not = timeout(SOON, stream.read_to_end(&mut answer)).await.expect("the edge closes");
    assert_ne!(answer.first(), Some(&0x16), "no handshake begins so");
}

#[tokio::test]
async fn a_stop_is_announced_before_the_listener_closes() {
    let world = World::with(&[("PLATFORM_DRAIN_MIN", "700ms")]).await;
    let bearer = world.bearer("alice");
    let mut client = world.client(Version::H1).await;
    world.stop.cancel();
    let reply = world.get("/readyz", &[]).await;
    assert_eq!((reply.status, reply.json()["data"]["status"].as_str()), (503, Some("draining")));
    for version in crate::client::BOTH {
        let reply = world.send(version, Method::GET, PATH, &[("authorization", &bearer)], "").await;
        assert_eq!(reply.status, 200, "still accepted");
    }
    let open = client.send(request(Method::GET, PATH, &[("authorization", &bearer)], "")).await;
    assert_eq!(open.status, 200);
    drop(tls(world.tls, &world.root, Version::H1).await);
    let refused = async {
        while TcpStream::connect(world.tls).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, refused).await.expect("then the listener closes");
}

/// Opens a balancer's connection that starts with these bytes and sends a small request; returns whether it is
/// answered.
async fn is_answered(world: &World, header: &[u8]) -> (bool, TcpStream) {
    let mut stream = TcpStream::connect(world.plain).await.expect("a connection");
    let request = [header, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"].concat();
    // A refused connection may already be gone.
    let _written = stream.write_all(&request).await;
    let mut answer = [0; 12];
    let read = timeout(SOON, stream.read_exact(&mut answer)).await.expect("answered or closed");
    (read.is_ok() && answer == *b"HTTP/1.1 200", stream)
}

#[tokio::test]
async fn connections_count_for_the_client_that_is_introduced_and_not_for_the_balancer() {
    let limits =
        [("PLATFORM_PROXY_PROTOCOL", "127.0.0.0/8"), ("PLATFORM_GATEWAY_MAX_CONNECTIONS_PER_ADDRESS", "1")];
    let world = World::cold(&limits).await;
    let (answered, first) = is_answered(&world, &introduction_of(9)).await;
    assert!(answered, "at the limit");
    assert!(!is_answered(&world, &introduction_of(9)).await.0, "one past it");
    let (answered, other) = is_answered(&world, &introduction_of(10)).await;
    assert!(answered, "another client of the same balancer");
    let own = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";
    let (one, two) = (is_answered(&world, own).await, is_answered(&world, own).await);
    assert!(one.0 && two.0, "the balancer's own connections");
    drop((first, other));
}

#[tokio::test]
async fn connections_that_introduce_nobody_make_room_for_those_that_do() {
    let limits = [("PLATFORM_PROXY_PROTOCOL", "127.0.0.0/8"), ("PLATFORM_GATEWAY_MAX_CONNECTIONS", "2")];
    let world = World::cold(&limits).await;
    let silent = TcpStream::connect(world.plain).await.expect("a connection");
    let mut half = TcpStream::connect(world.plain).await.expect("a connection");
    half.write_all(&introduction()[..10]).await.expect("written");
    let (first, _held) = is_answered(&world, &introduction()).await;
    let (second, _also_held) = is_answered(&world, &introduction()).await;
    assert!(first && second, "long before the time of an introduction is over");
    drop((silent, half));
}
