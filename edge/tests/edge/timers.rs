//! The gateway's timeouts, scaled down by its own variables.

use std::time::{Duration, Instant};

use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::backend::Answer;
use crate::client::{BOTH, Version, tls};
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/x";

#[tokio::test]
async fn a_module_that_cannot_be_dialled_is_unavailable() {
    let world = World::with(&[("PLATFORM_MODULE_HOST_TIMESHEET", "127.0.0.1:9")]).await;
    let bearer = world.bearer("alice");
    for version in BOTH {
        let reply = world.send(version, Method::POST, PATH, &[("authorization", &bearer)], "{}").await;
        assert_eq!((reply.status, reply.code().as_str()), (503, "MODULE_UNAVAILABLE"));
        assert_eq!(reply.json()["error"]["details"]["reason"], "connect_refused");
    }
}

#[tokio::test]
async fn the_first_byte_has_a_budget_that_begins_when_the_request_is_sent() {
    let world = World::with(&[("PLATFORM_MODULE_RESPONSE_HEADER_TIMEOUT", "200ms")]).await;
    let bearer = world.bearer("alice");
    world.backend.on_path(PATH, Answer::Hang);
    for version in BOTH {
        let began = Instant::now();
        let reply = world.send(version, Method::POST, PATH, &[("authorization", &bearer)], "{}").await;
        assert_eq!((reply.status, reply.code().as_str()), (503, "MODULE_UNAVAILABLE"));
        assert_eq!(reply.json()["error"]["details"]["reason"], "first_byte_timeout");
        assert!(
            (Duration::from_millis(200)..Duration::from_secs(2)).contains(&began.elapsed()),
            "{:?}",
            began.elapsed()
        );
    }
}

#[tokio::test]
async fn garbage_and_a_closed_connection_instead_of_an_answer_are_unavailable_and_nothing_is_sent_twice() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let world = World::with(&[("PLATFORM_MODULE_HOST_TIMESHEET", &address)]).await;
    let bearer = world.bearer("alice");
    for (answer, reason) in [
        (&b"SSH-2.0-x\r\n\r\n"[..], "malformed_answer"),
        (b"", "reset"),
        (b"HTTP/1.1 200 OK\r\nx-half: ", "reset"),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
            "malformed_answer",
        ),
    ] {
        let upstream = async {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            let mut request = [0; 4_096];
            assert!(socket.read(&mut request).await.expect("a request") > 0);
            socket.write_all(answer).await.expect("written");
        };
        let auth = [("authorization", bearer.as_str())];
        let (reply, ()) = tokio::join!(world.post(PATH, &auth, "{}"), upstream);
        assert_eq!((reply.status, reply.code().as_str()), (503, "MODULE_UNAVAILABLE"), "{reason}");
        assert_eq!(reply.json()["error"]["details"]["reason"], reason);
    }
}

#[tokio::test]
async fn a_connection_that_never_speaks_or_never_ends_its_head_is_closed() {
    let world = World::with(&[("PLATFORM_GATEWAY_HEADER_TIMEOUT", "200ms")]).await;
    for (version, sent) in
        [(Version::H1, ""), (Version::H2, ""), (Version::H1, "GET /healthz HTTP/1.1\r\nhost: a")]
    {
        let mut stream = tls(world.tls, &world.root, version).await;
        stream.write_all(sent.as_bytes()).await.expect("written");
        stream.flush().await.expect("flushed");
        let mut rest = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest)).await;
        assert!(closed.is_ok(), "{version:?} {sent:?}");
    }
}

#[tokio::test]
async fn an_idle_connection_outlives_the_head_timer_and_ends_with_keep_alive() {
    let world = World::with(&[
        ("PLATFORM_GATEWAY_HEADER_TIMEOUT", "200ms"),
        ("PLATFORM_GATEWAY_KEEP_ALIVE", "900ms"),
    ])
    .await;
    let mut stream = tls(world.tls, &world.root, Version::H1).await;
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut answer = vec![0; 4_096];
    stream.write_all(request).await.expect("written");
    assert!(stream.read(&mut answer).await.expect("an answer") > 0);
    let idle_since = Instant::now();
    tokio::time::sleep(Duration::from_millis(450)).await;
    stream.write_all(request).await.expect("written");
    assert!(
        stream.read(&mut answer).await.expect("an answer") > 0,
        "still open after {:?}",
        idle_since.elapsed()
    );
    let closed = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut answer)).await;
    assert!(closed.is_ok_and(|read| read.is_err() || matches!(read, Ok(0))));
    assert!(idle_since.elapsed() >= Duration::from_millis(1_300));
}
