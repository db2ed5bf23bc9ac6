//! Informational answers and trailers for HTTP/2 clients, and bodies that break off.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, SendStream};
use http::{Method, Request, Response};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::{Version, tls};
use crate::frames::{
    DATA, END_HEADERS, END_STREAM, Frames, HEADERS, RST_STREAM, WINDOW_UPDATE, append_length, get_block,
};
use crate::http1::scripted;
use crate::raw::{Raw, SOON};
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/x";

struct Client {
    send: SendRequest<Bytes>,
    bearer: String,
    _driver: JoinSet<()>,
}

impl Client {
    async fn connect(world: &World, bearer: &str) -> Self {
        let stream = tls(world.tls, &world.root, Version::H2).await;
        let (send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
        let mut driver = JoinSet::new();
        driver.spawn(async { drop(connection.await) });
        Self { send, bearer: bearer.to_owned(), _driver: driver }
    }

    /// Starts a request with these headers besides the bearer.
    async fn ask(
        &mut self,
        method: Method,
        headers: &[(&str, &str)],
        ended: bool,
    ) -> (ResponseFuture, SendStream<Bytes>) {
        let request = Request::builder().method(method).uri(format!("https://localhost:8443{PATH}"));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.header("authorization", &self.bearer).body(()).expect("a request");
        poll_fn(|context| self.send.poll_ready(context)).await.expect("a stream");
        self.send.send_request(request, ended).expect("sent")
    }
}

async fn informed(answer: &mut ResponseFuture) -> Response<()> {
    let told = poll_fn(|context| answer.poll_informational(context));
    timeout(SOON, told).await.expect("in time").expect("an informational answer").expect("no error")
}

async fn body_of(answer: ResponseFuture) -> (u16, String) {
    let mut response = timeout(SOON, answer).await.expect("in time").expect("an answer");
    let mut body = Vec::new();
    while let Some(data) = timeout(SOON, response.body_mut().data()).await.expect("in time") {
        body.extend_from_slice(&data.expect("no error"));
    }
    (response.status().as_u16(), String::from_utf8(body).expect("text"))
}

#[tokio::test]
async fn early_hints_are_passed_on() {
    let (world, listener, bearer) = scripted(&[]).await;
    let mut client = Client::connect(&world, &bearer).await;
    let (mut answer, _) = client.ask(Method::GET, &[], true).await;
    let mut upstream = Raw::upstream(&listener).await;
    upstream.head().await;
    for link in ["</a>", "</b>"] {
        let hints = format!("HTTP/1.1 103 Early Hints\r\nlink: {link}\r\nconnection: x\r\nx: 1\r\n\r\n");
        upstream.send(hints).await;
        let hints = informed(&mut answer).await;
        assert_eq!(
            (hints.status().as_u16(), &hints.headers()["link"]),
            (103, &link.parse().expect("a value"))
        );
        assert_eq!((hints.headers().get("x"), hints.headers().get("connection")), (None, None));
    }
    upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    assert_eq!(body_of(answer).await, (200, "ok".to_owned()));
}

#[tokio::test]
async fn a_client_that_waits_for_a_100_gets_it_only_when_its_body_is_wanted() {
    let (world, listener, bearer) = scripted(&[]).await;
    let expects = [("expect", "100-continue"), ("content-length", "4")];
    let mut refused = Client::connect(&world, "Bearer x").await;
    let (mut answer, _unsent) = refused.ask(Method::POST, &expects, false).await;
    let told = timeout(SOON, poll_fn(|context| answer.poll_informational(context))).await.expect("in time");
    assert!(told.is_none(), "no 100 before it: {told:?}");
    assert_eq!(body_of(answer).await.0, 401);

    let mut client = Client::connect(&world, &bearer).await;
    let (mut answer, mut body) = client.ask(Method::POST, &expects, false).await;
    assert_eq!(informed(&mut answer).await.status(), 100);
    body.send_data(Bytes::from("body"), true).expect("sent");
    let mut upstream = Raw::upstream(&listener).await;
    let asked = upstream.head().await;
    assert_eq!((asked.header("expect"), asked.header("content-length")), (None, Some("4")));
    upstream.expect("body").await;
    // The upstream's own 100 is not passed on.
    upstream.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let told = timeout(SOON, poll_fn(|context| answer.poll_informational(context))).await.expect("in time");
    assert!(told.is_none(), "one 100 is enough: {told:?}");
    assert_eq!(body_of(answer).await, (200, "ok".to_owned()));
}

#[tokio::test]
async fn an_answer_without_a_body_ends_with_its_head() {
    let (world, listener, bearer) = scripted(&[]).await;
    let mut client = Client::connect(&world, &bearer).await;
    for (method, answer, length) in [
        (Method::HEAD, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", Some("9")),
        (Method::GET, "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", Some("9")),
        (Method::HEAD, "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", Some("9")),
        (Method::HEAD, "HTTP/1.1 304 Not Modified\r\ncontent-length: 0\r\n\r\n", None),
        (Method::DELETE, "HTTP/1.1 204 No Content\r\n\r\n", None),
        (Method::GET, "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", None),
    ] {
        let (asked, _) = client.ask(method.clone(), &[], true).await;
        // Each on its own connection, because this one ends here.
        let mut upstream = Raw::upstream(&listener).await;
        upstream.head().await;
        upstream.send(answer).await;
        let response = timeout(SOON, asked).await.expect("in time").expect("an answer");
        assert!(response.body().is_end_stream(), "{method} {answer:?}");
        let announced = response.headers().get("content-length").map(|value| value.to_str().expect("text"));
        assert_eq!(announced, length, "{method} {answer:?}");
        assert!(response.headers().contains_key("date"), "{method} {answer:?}");
    }
}

#[tokio::test]
async fn an_answer_of_the_edge_to_head_has_no_body_either() {
    let world = World::start().await;
    let mut frames = Frames::connect(&world, 65_535).await;
    let mut block = vec![0x02];
    append_length(&mut block, "HEAD".len());
    block.extend_from_slice(b"HEAD\x87\x04");
    append_length(&mut block, PATH.len());
    block.extend_from_slice(PATH.as_bytes());
    block.extend_from_slice(b"\x01\x09localhost");
    frames.send(HEADERS, END_HEADERS | END_STREAM, 1, &block).await;
    let head = frames.next_of(HEADERS, 1).await;
    assert_eq!(head.flags & END_STREAM, END_STREAM, "the refusal of a request without a token");
    frames.is_alive(&[]).await;
}

#[tokio::test]
async fn a_request_whose_stream_is_reset_never_looks_complete() {
    let (world, listener, bearer) = scripted(&[]).await;
    for reason in [Reason::CANCEL, Reason::NO_ERROR, Reason::INTERNAL_ERROR] {
        let mut client = Client::connect(&world, &bearer).await;
        let (_answer, mut body) = client.ask(Method::POST, &[], false).await;
        body.send_data(Bytes::from("half"), false).expect("sent");
        let mut upstream = Raw::upstream(&listener).await;
        upstream.head().await;
        upstream.expect("4\r\nhalf\r\n").await;
        body.send_reset(reason);
        assert_eq!(upstream.rest().await, "", "{reason:?}");
    }
}

#[tokio::test]
async fn a_body_that_is_whole_by_its_length_waits_for_the_end_of_its_stream() {
    // More than is buffered before the upstream gets the request.
    let most = "x".repeat(100_000);
    let (world, listener, bearer) = scripted(&[]).await;
    for is_ended in [true, false] {
        let mut client = Client::connect(&world, &bearer).await;
        let (answer, mut body) = client.ask(Method::POST, &[("content-length", "100004")], false).await;
        body.send_data(Bytes::from(most.clone()), false).expect("sent");
        let mut upstream = Raw::upstream(&listener).await;
        upstream.head().await;
        upstream.expect(&most).await;
        body.send_data(Bytes::from("rest"), false).expect("sent");
        // The gateway has had time to send it on.
        for _ in 0..10 {
            assert_eq!(world.get("/healthz", &[]).await.status, 200);
        }
        if is_ended {
            body.send_data(Bytes::new(), true).expect("sent");
            upstream.expect("rest").await;
            upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
            assert_eq!(body_of(answer).await, (200, "ok".to_owned()));
        } else {
            body.send_reset(Reason::CANCEL);
            assert_eq!(upstream.rest().await, "", "a request that is taken back is never whole");
        }
    }
}

#[tokio::test]
async fn a_body_is_read_no_faster_than_the_upstream_takes_it() {
    const CHUNK: usize = 16 << 10;
    let (world, listener, bearer) = scripted(&[]).await;
    let mut client = Client::connect(&world, &bearer).await;
    let (answer, mut body) = client.ask(Method::POST, &[], false).await;
    let mut upstream = Raw::upstream(&listener).await;
    upstream.head().await;
    // The upstream reads nothing: the buffers of the gateway and the sockets fill up, and then no more is taken.
    let mut sent = 0;
    loop {
        body.reserve_capacity(CHUNK);
        let room = timeout(Duration::from_millis(500), poll_fn(|context| body.poll_capacity(context))).await;
        let Ok(room) = room else { break };
        let room = room.expect("an open stream").expect("no error");
        body.send_data(Bytes::from(vec![b'x'; room]), false).expect("sent");
        sent += room;
        assert!(sent < 64 << 20, "the edge reads without end");
    }
    body.send_data(Bytes::new(), true).expect("sent");
    let mut got = 0;
    loop {
        let size = upstream.line().await;
        let size = usize::from_str_radix(&size, 16).expect("a size");
        got += size;
        upstream.expect(&"x".repeat(size)).await;
        upstream.expect("\r\n").await;
        if size == 0 {
            break;
        }
    }
    assert_eq!(got, sent);
    upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    assert_eq!(body_of(answer).await, (200, "ok".to_owned()));
}

/// An h2c upstream that sends a head and a piece, and resets each stream on request.
async fn resets_streams(listener: TcpListener, reason: Reason, told: Arc<Notify>) {
    let (socket, _) = listener.accept().await.expect("a connection");
    let mut connection = h2::server::handshake(socket).await.expect("HTTP/2");
    while let Some(accepted) = connection.accept().await {
        let (_request, mut reply) = accepted.expect("a request");
        let mut body = reply.send_response(Response::new(()), false).expect("sent");
        body.send_data(Bytes::from("half"), false).expect("sent");
        let told = Arc::clone(&told);
        tokio::spawn(async move {
            told.notified().await;
            body.send_reset(reason);
        });
    }
}

#[tokio::test]
async fn what_an_upstream_says_when_it_breaks_off_is_said_to_the_client() {
    for reason in [Reason::ENHANCE_YOUR_CALM, Reason::REFUSED_STREAM] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let host = format!("h2c://{}", listener.local_addr().expect("an address"));
        let told = Arc::new(Notify::new());
        let mut upstream = JoinSet::new();
        upstream.spawn(resets_streams(listener, reason, Arc::clone(&told)));
        let world = World::with(&[("PLATFORM_MODULE_HOST_TIMESHEET", &host)]).await;
        let mut client = Client::connect(&world, &world.bearer("alice")).await;
        let (answer, _) = client.ask(Method::GET, &[], true).await;
        let mut response = timeout(SOON, answer).await.expect("in time").expect("an answer");
        let piece = timeout(SOON, response.body_mut().data()).await.expect("in time").expect("a piece");
        assert_eq!(piece.expect("no error"), "half");
        told.notify_one();
        let end = timeout(SOON, response.body_mut().data()).await.expect("in time");
        assert_eq!(end.expect("an end").expect_err("a bad one").reason(), Some(reason));
    }
}

#[tokio::test]
async fn a_pseudo_header_in_a_trailer_is_known_by_its_place_in_the_table() {
    // A regular field in the table, and a path; the newest entry has index 62.
    for (number, is_whole) in [(0xbe, true), (0xbf, false)] {
        let (world, listener, bearer) = scripted(&[]).await;
        let mut frames = Frames::connect(&world, 65_535).await;
        let mut block = get_block(PATH, &bearer);
        // POST instead of GET.
        block[0] = 0x83;
        block.extend_from_slice(b"\x44\x02/x\x40\x03x-a\x011");
        // The second path makes this request malformed, and enters the table nevertheless.
        frames.send(HEADERS, END_HEADERS | END_STREAM, 1, &block).await;
        frames.next_of(RST_STREAM, 1).await;
        let mut block = get_block(PATH, &bearer);
        block[0] = 0x83;
        frames.send(HEADERS, END_HEADERS, 3, &block).await;
        frames.send(DATA, 0, 3, b"hello").await;
        let mut upstream = Raw::upstream(&listener).await;
        upstream.head().await;
        upstream.expect("5\r\nhello\r\n").await;
        frames.send(HEADERS, END_HEADERS | END_STREAM, 3, &[number]).await;
        if is_whole {
            upstream.expect("0\r\nx-a: 1\r\n\r\n").await;
        } else {
            let reset = frames.next_of(RST_STREAM, 3).await;
            assert_eq!(reset.payload, 1_u32.to_be_bytes(), "PROTOCOL_ERROR");
            assert_eq!(upstream.rest().await, "", "the upstream never gets a whole request");
            frames.is_alive(&[WINDOW_UPDATE]).await;
        }
    }
}
