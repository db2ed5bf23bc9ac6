//! Behind a balancer: the PROXY protocol says who the client is, and a stop is announced before the listener closes.

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

/// What a balancer says of a client at 203.0.113.9.
fn introduction() -> Vec<u8> {
    let addresses = [203, 0, 113, 9, 10, 0, 0, 1, 0x12, 0x34, 1, 187];
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
            // The keys and the catalog are still on their way.
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
