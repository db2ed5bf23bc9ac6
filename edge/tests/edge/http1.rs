//! The gateway's HTTP/1.1 server, byte by byte: framing, the order of answers, timeouts, and how connections end.

use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::raw::{Raw, SOON};
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/x";

/// A gateway in front of a socket that the test plays.
pub(crate) async fn scripted(variables: &[(&str, &str)]) -> (World, TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let mut variables = variables.to_vec();
    variables.push(("PLATFORM_MODULE_HOST_TIMESHEET", &address));
    let world = World::with(&variables).await;
    let bearer = world.bearer("alice");
    (world, listener, bearer)
}

fn code(body: &str) -> String {
    let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    body["error"]["code"].as_str().expect("a code").to_owned()
}

#[tokio::test]
async fn what_is_not_to_the_letter_is_answered_with_the_envelope_and_the_connection_ends() {
    let world = World::start().await;
    for (text, status, expected) in [
        ("GET / HTTP/1.1\nhost: a\n\n", 400, "BAD_REQUEST"),
        ("GET / HTTP/1.1\r\nhost: a\nx: 1\r\n\r\n", 400, "BAD_REQUEST"),
        ("GET / HTTP/1.1\r\nhost : a\r\n\r\n", 400, "BAD_REQUEST"),
        ("GET / HTTP/1.1\r\nhost: a\r\nx: 1\r\n folded\r\n\r\n", 400, "BAD_REQUEST"),
        ("GET / HTTP/1.1\r\nhost: a\r\nx: 1\x00\r\n\r\n", 400, "BAD_REQUEST"),
        ("GET / HTTP/3.0\r\nhost: a\r\n\r\n", 400, "BAD_REQUEST"),
        ("GET / HTTP/1.0\r\nhost: a\r\n\r\n", 426, "UPGRADE_REQUIRED"),
        ("\x16\x03\x01\x02\x00\r\n\r\n", 400, "BAD_REQUEST"),
        ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\nx", 400, "BAD_REQUEST"),
        ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1, 1\r\n\r\nx", 400, "BAD_REQUEST"),
        ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: +1\r\n\r\nx", 400, "BAD_REQUEST"),
        (
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
            "BAD_REQUEST",
        ),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n", 400, "BAD_REQUEST"),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: identity\r\n\r\n", 400, "BAD_REQUEST"),
        ("GET /a#b HTTP/1.1\r\nhost: a\r\n\r\n", 400, "BAD_REQUEST"),
    ] {
        let mut client = Raw::client(&world).await;
        // A second request hides behind the first; it must not be parsed.
        client.send(format!("{text}GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n")).await;
        let head = client.head().await;
        let closes = ("connection".to_owned(), "close".to_owned());
        assert_eq!((head.status(), head.headers.contains(&closes)), (status, true), "{text:?}");
        assert!(head.header("x-correlation-id").is_some() && head.header("date").is_some(), "{head:?}");
        let body = client.body(&head).await;
        assert_eq!(code(&body), expected, "{text:?}");
        assert_eq!(client.rest().await, "", "{text:?}");
    }
}

#[tokio::test]
async fn probes_are_answered_over_http_1_0_and_nothing_else_is() {
    let world = World::start().await;
    for address in [world.plain, world.tls] {
        for (text, status) in [
            ("GET /healthz HTTP/1.0\r\n\r\n", 200),
            ("GET /readyz HTTP/1.0\r\nhost: a\r\nconnection: keep-alive\r\n\r\n", 200),
            ("HEAD /healthz HTTP/1.0\r\n\r\n", 200),
            ("GET /readyz?x=1 HTTP/1.0\r\n\r\n", 200),
            ("GET /readyz HTTP/1.0\r\nx-user-id: root\r\n\r\n", 400),
            ("GET /readyz HTTP/1.0\r\nhost: a\r\nhost: a\r\n\r\n", 400),
            ("POST /readyz HTTP/1.0\r\n\r\n", 405),
            ("POST /readyz HTTP/1.0\r\ncontent-length: 1\r\n\r\nx", 426),
            ("GET /readyz HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 426),
            ("GET /healthz/ HTTP/1.0\r\nhost: a\r\n\r\n", 426),
            ("GET /api/platform/catalog HTTP/1.0\r\nhost: a\r\n\r\n", 426),
        ] {
            let (head, body, rest) = if address == world.plain {
                let stream = TcpStream::connect(address).await.expect("a connection");
                asked(Raw::on(stream), text).await
            } else {
                asked(Raw::client(&world).await, text).await
            };
            assert_eq!(head.status(), status, "{text:?}");
            let has = |name: &str, value: &str| head.headers.contains(&(name.to_owned(), value.to_owned()));
            assert!(has("connection", "close") && head.header("transfer-encoding").is_none(), "{head:?}");
            assert_eq!(
                (head.header("upgrade"), has("connection", "upgrade")),
                if status == 426 { (Some("HTTP/1.1"), true) } else { (None, false) },
                "{head:?}"
            );
            assert_eq!((body.is_empty(), rest.as_str()), (text.starts_with("HEAD"), ""), "{text:?}");
        }
    }
}

/// Sends `text` and returns everything received until the connection closes.
async fn asked<S: AsyncRead + AsyncWrite + Unpin>(
    mut client: Raw<S>,
    text: &str,
) -> (crate::raw::Message, String, String) {
    client.send(text).await;
    let head = client.head().await;
    let body = if text.starts_with("HEAD") { String::new() } else { client.body(&head).await };
    (head, body, client.rest().await)
}

#[tokio::test]
async fn hosts_are_needed_and_only_one() {
    let world = World::start().await;
    for text in [
        "GET /healthz HTTP/1.1\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: a\r\nHost: a\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: a b\r\n\r\n",
        "GET http://b/healthz HTTP/1.1\r\nhost: a\r\n\r\n",
    ] {
        let mut client = Raw::client(&world).await;
        client.send(text).await;
        assert_eq!(client.head().await.status(), 400, "{text:?}");
    }
}

#[tokio::test]
async fn heads_far_past_their_limits_are_refused_before_they_are_whole() {
    let world = World::start().await;
    for (text, status, expected) in [
        (format!("GET /{}", "x".repeat(200_000)), 414, "URI_TOO_LONG"),
        (format!("GET / HTTP/1.1\r\nx: {}", "x".repeat(300_000)), 431, "HEADERS_TOO_LARGE"),
        (format!("GET / HTTP/1.1\r\n{}\r\n", "x: 1\r\n".repeat(600)), 431, "HEADERS_TOO_LARGE"),
    ] {
        let mut client = Raw::client(&world).await;
        client.send(text).await;
        let head = client.head().await;
        assert_eq!(head.status(), status);
        let body = client.body(&head).await;
        assert_eq!(code(&body), expected);
    }
}

#[tokio::test]
async fn a_head_that_does_not_end_gets_a_408() {
    let world = World::with(&[("PLATFORM_GATEWAY_HEADER_TIMEOUT", "200ms")]).await;
    let mut client = Raw::client(&world).await;
    client.send("GET /healthz HTTP/1.1\r\nhost: a\r\n").await;
    let head = client.head().await;
    assert_eq!(head.status(), 408);
    let body = client.body(&head).await;
    assert_eq!(code(&body), "REQUEST_TIMEOUT");
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn requests_sent_ahead_are_answered_in_their_order() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let mut client = Raw::client(&world).await;
    let mut ahead = String::new();
    for number in 0..20 {
        write!(ahead, "POST {PATH}/{number} HTTP/1.1\r\nhost: a\r\nauthorization: {bearer}\r\n")
            .expect("text");
        write!(ahead, "content-length: 2\r\n\r\n{number:02}").expect("text");
    }
    client.send(ahead).await;
    for number in 0..20 {
        let head = client.head().await;
        assert_eq!(head.status(), 200);
        let body: Value = serde_json::from_str(&client.body(&head).await).expect("JSON");
        assert_eq!(body["data"]["path"], format!("{PATH}/{number}"));
        assert_eq!(body["data"]["body"], format!("{number:02}"));
    }
}

#[tokio::test]
async fn a_client_that_waits_for_a_100_gets_it_only_when_its_body_is_wanted() {
    let (world, listener, bearer) = scripted(&[]).await;
    let ask = |bearer: &str| {
        format!(
            "POST {PATH} HTTP/1.1\r\nhost: a\r\nauthorization: {bearer}\r\nexpect: 100-continue\r\n\
             content-length: 4\r\n\r\n"
        )
    };
    let mut refused = Raw::client(&world).await;
    refused.send(ask("Bearer x")).await;
    let head = refused.head().await;
    assert_eq!((head.status(), head.header("connection")), (401, Some("close")), "no 100 before it");
    let mut client = Raw::client(&world).await;
    client.send(ask(&bearer)).await;
    assert_eq!(client.head().await.status(), 100);
    client.send("body").await;
    let mut upstream = Raw::upstream(&listener).await;
    let asked = upstream.head().await;
    assert_eq!(asked.header("expect"), None);
    upstream.expect("body").await;
    upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let head = client.head().await;
    assert_eq!((head.status(), client.body(&head).await.as_str()), (200, "ok"));
}

#[tokio::test]
async fn early_hints_are_passed_on_and_other_answers_without_a_body_have_none() {
    let (world, listener, bearer) = scripted(&[]).await;
    let mut client = Raw::client(&world).await;
    let ask =
        |method: &str| format!("{method} {PATH} HTTP/1.1\r\nhost: a\r\nauthorization: {bearer}\r\n\r\n");
    client.send(ask("GET")).await;
    let mut upstream = Raw::upstream(&listener).await;
    upstream.head().await;
    upstream
        .send("HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\nconnection: x\r\nx: 1\r\n\r\n")
        .await;
    let hints = client.head().await;
    assert_eq!((hints.status(), hints.header("link")), (103, Some("</a>; rel=preload")));
    assert_eq!((hints.header("x"), hints.header("connection")), (None, None));
    upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let head = client.head().await;
    assert_eq!((head.status(), client.body(&head).await.as_str()), (200, "ok"));
    drop(upstream);
    for (method, answer, length) in [
        ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", Some("9")),
        ("GET", "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", Some("9")),
        ("HEAD", "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", Some("9")),
        ("HEAD", "HTTP/1.1 304 Not Modified\r\ncontent-length: 0\r\n\r\n", None),
        ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Some("0")),
        ("DELETE", "HTTP/1.1 204 No Content\r\n\r\n", None),
        ("GET", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", Some("0")),
    ] {
        client.send(ask(method)).await;
        let mut upstream = Raw::upstream(&listener).await;
        upstream.head().await;
        upstream.send(answer).await;
        assert_eq!(client.head().await.header("content-length"), length, "{method} {answer:?}");
    }
}

#[tokio::test]
async fn chunks_and_trailers_pass_in_both_directions() {
    let (world, listener, bearer) = scripted(&[]).await;
    let mut client = Raw::client(&world).await;
    client
        .send(format!(
            "POST {PATH} HTTP/1.1\r\nhost: a\r\nauthorization: {bearer}\r\nte: trailers\r\n\
             transfer-encoding: chunked\r\n\r\n3\r\none\r\n0\r\nx-sum: 1\r\nhost: evil\r\n\r\n"
        ))
        .await;
    let mut upstream = Raw::upstream(&listener).await;
    let asked = upstream.head().await;
    assert_eq!((asked.header("transfer-encoding"), asked.header("te")), (Some("chunked"), Some("trailers")));
    assert_eq!(asked.header("content-length"), None);
    upstream.expect("3\r\none\r\n0\r\nx-sum: 1\r\n\r\n").await;
    upstream
        .send(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\ngrpc-status: 0\r\n\r\n",
        )
        .await;
    let head = client.head().await;
    assert_eq!((head.status(), head.header("transfer-encoding")), (200, Some("chunked")));
    client.expect("5\r\nhello\r\n0\r\ngrpc-status: 0\r\n\r\n").await;
    client.send(format!("GET {PATH} HTTP/1.1\r\nhost: a\r\nauthorization: {bearer}\r\n\r\n")).await;
    upstream.head().await;
}

#[tokio::test]
async fn a_bad_chunk_is_the_clients_fault() {
    let (world, listener, bearer) = scripted(&[]).await;
    // Malformed framing ends the connection; after a forbidden trailer the message is complete, and the next may
    // follow.
    let bad = [("3\r\noneX\r\n", true), ("x\r\n", true), ("3\nabc\r\n", true)];
    for (bad, ends) in bad.into_iter().chain([("0\r\nx-user-id: 1\r\n\r\n", false)]) {
        let mut client = Raw::client(&world).await;
        client
            .send(format!(
                "POST {PATH} HTTP/1.1\r\nhost: a\r\nauthorization: {bearer}\r\n\
                 transfer-encoding: chunked\r\n\r\n{bad}"
            ))
            .await;
        let mut upstream = Raw::upstream(&listener).await;
        let head = client.head().await;
        let body = client.body(&head).await;
        assert_eq!((head.status(), code(&body).as_str()), (400, "BAD_REQUEST"), "{bad:?}");
        if ends {
            assert_eq!(client.rest().await, "", "{bad:?}");
        }
        assert!(!upstream.rest().await.ends_with("0\r\n\r\n"), "the upstream never gets a whole request");
    }
}

#[tokio::test]
async fn a_client_that_stops_sending_still_gets_its_answer() {
    let (world, listener, bearer) = scripted(&[]).await;
    let mut client = Raw::client(&world).await;
    let request = format!("GET {PATH} HTTP/1.1\r\nhost: a\r\nauthorization: {bearer}\r\n\r\n");
    // Both in one write, so that neither arrives alone. The client's end of stream does not end the connection.
    let session = client.stream.get_mut().1;
    session.writer().write_all(request.as_bytes()).expect("taken");
    session.send_close_notify();
    client.stream.flush().await.expect("sent");
    let mut upstream = Raw::upstream(&listener).await;
    upstream.head().await;
    upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
    let head = client.head().await;
    assert_eq!((head.status(), head.header("connection")), (200, Some("close")));
    assert_eq!(client.rest().await, "ok");
}

/// This many requests back to back: every other one with a body, by length or in chunks.
fn ahead(count: usize, bearer: &str) -> String {
    let one = |number: usize| {
        let head = format!("/{number} HTTP/1.1\r\nhost: a\r\nauthorization: {bearer}\r\n");
        let body = format!("{number:03}");
        match number % 4 {
            1 => format!("POST {PATH}{head}content-length: 3\r\n\r\n{body}"),
            3 => format!("POST {PATH}{head}transfer-encoding: chunked\r\n\r\n3\r\n{body}\r\n0\r\n\r\n"),
            _ => format!("GET {PATH}{head}\r\n"),
        }
    };
    (0..count).map(one).collect()
}

/// Checks that each is answered, the last one with `connection: close`, and that nothing follows.
async fn all_answered<S: AsyncRead + AsyncWrite + Unpin>(client: &mut Raw<S>, count: usize, about: &str) {
    for number in 0..count {
        let head = client.head().await;
        assert_eq!(head.status(), 200, "{about}, {number}");
        let body: Value = serde_json::from_str(&client.body(&head).await).expect("JSON");
        assert_eq!(body["data"]["path"], format!("{PATH}/{number}"), "{about}");
        let sent = if number % 2 == 1 { format!("{number:03}") } else { String::new() };
        assert_eq!(body["data"]["body"], sent, "{about}, {number}");
        let is_last = number + 1 == count;
        assert_eq!(head.header("connection"), is_last.then_some("close"), "{about}, {number}");
    }
    assert_eq!(client.rest().await, "", "{about}");
}

#[tokio::test]
async fn requests_sent_ahead_of_a_half_close_are_all_answered() {
    const COUNT: usize = 20;
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let requests = ahead(COUNT, &bearer);
    let mut client = Raw::on(TcpStream::connect(world.plain).await.expect("a connection"));
    client.send(&requests).await;
    client.stream.shutdown().await.expect("the end of what is sent");
    all_answered(&mut client, COUNT, "TCP").await;
    let mut client = Raw::client(&world).await;
    let session = client.stream.get_mut().1;
    session.writer().write_all(requests.as_bytes()).expect("taken");
    session.send_close_notify();
    client.stream.flush().await.expect("sent");
    all_answered(&mut client, COUNT, "TLS").await;
}

#[tokio::test]
async fn more_requests_than_are_taken_in_at_once_are_all_answered_after_a_half_close() {
    const COUNT: usize = 400;
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let requests = ahead(COUNT, &bearer);
    assert!(requests.len() > 2 * (64 << 10), "{}", requests.len());
    let (read, mut write) = tokio::io::split(TcpStream::connect(world.plain).await.expect("a connection"));
    let sending = tokio::spawn(async move {
        write.write_all(requests.as_bytes()).await.expect("written");
        write.shutdown().await.expect("the end of what is sent");
    });
    let mut client = Raw::on(tokio::io::join(read, tokio::io::sink()));
    all_answered(&mut client, COUNT, "TCP").await;
    sending.await.expect("all is sent");
}

#[tokio::test]
async fn half_a_request_before_a_half_close_takes_no_answer_from_those_before_it() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    for half in ["GET /x HTTP/1.1\r\nhost: a\r\n".to_owned(), "G".to_owned()] {
        let mut client = Raw::on(TcpStream::connect(world.plain).await.expect("a connection"));
        client.send(format!("{}{half}", ahead(3, &bearer))).await;
        client.stream.shutdown().await.expect("the end of what is sent");
        for number in 0..3 {
            let head = client.head().await;
            assert_eq!(head.status(), 200, "{half:?}, {number}");
            client.body(&head).await;
        }
        assert_eq!(client.rest().await, "", "{half:?}");
    }
    let mut client = Raw::on(TcpStream::connect(world.plain).await.expect("a connection"));
    let half = format!(
        "POST {PATH} HTTP/1.1\r\nhost: a\r\nauthorization: {bearer}\r\ncontent-length: 9\r\n\r\nhalf"
    );
    client.send(format!("{}{half}", ahead(3, &bearer))).await;
    client.stream.shutdown().await.expect("the end of what is sent");
    for _ in 0..3 {
        let head = client.head().await;
        assert_eq!(head.status(), 200);
        client.body(&head).await;
    }
    assert_eq!(client.head().await.status(), 400, "half a body");
}

#[tokio::test]
async fn a_client_that_leaves_behind_requests_sent_ahead_is_not_answered_and_the_rest_goes_nowhere() {
    let (world, listener, bearer) = scripted(&[]).await;
    let mut client = Raw::client(&world).await;
    client.send(ahead(2, &bearer)).await;
    let mut upstream = Raw::upstream(&listener).await;
    upstream.head().await;
    // The goodbye and the end of the connection.
    client.stream.shutdown().await.expect("a goodbye");
    drop(client);
    assert_eq!(timeout(SOON, upstream.rest()).await.expect("in time"), "");
    let next = timeout(Duration::from_millis(300), listener.accept()).await;
    assert!(next.is_err(), "the second request is not forwarded");
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_upstreams_work_before_there_is_an_answer() {
    let (world, listener, bearer) = scripted(&[]).await;
    for with_goodbye in [false, true] {
        let mut client = Raw::client(&world).await;
        client.send(format!("GET {PATH} HTTP/1.1\r\nhost: a\r\nauthorization: {bearer}\r\n\r\n")).await;
        let mut upstream = Raw::upstream(&listener).await;
        upstream.head().await;
        if with_goodbye {
            client.stream.shutdown().await.expect("a goodbye");
        }
        drop(client);
        assert_eq!(timeout(SOON, upstream.rest()).await.expect("in time"), "", "{with_goodbye}");
    }
}

#[tokio::test]
async fn a_small_body_that_nobody_wanted_is_passed_over_and_a_large_one_ends_the_connection() {
    let world = World::start().await;
    for (length, goes_on) in [(100, true), (10_000_000, false)] {
        let mut client = Raw::client(&world).await;
        let sent = "x".repeat(100);
        client
            .send(format!("POST {PATH} HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n{sent}"))
            .await;
        let head = client.head().await;
        assert_eq!(head.status(), 401);
        client.body(&head).await;
        if goes_on {
            client.send("GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await;
            assert_eq!(client.head().await.status(), 200);
        } else {
            assert_eq!(client.rest().await, "");
        }
    }
}

#[tokio::test]
async fn an_answer_before_the_end_of_the_request_is_passed_on_and_the_rest_still_goes_up() {
    let (world, listener, bearer) = scripted(&[]).await;
    let mut client = Raw::client(&world).await;
    client
        .send(format!(
            "POST {PATH} HTTP/1.1\r\nhost: a\r\nauthorization: {bearer}\r\ntransfer-encoding: chunked\r\n\r\n\
             3\r\none\r\n"
        ))
        .await;
    let mut upstream = Raw::upstream(&listener).await;
    upstream.head().await;
    upstream.expect("3\r\none\r\n").await;
    upstream.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\neno\r\n").await;
    assert_eq!(client.head().await.status(), 200);
    client.expect("3\r\neno\r\n").await;
    client.send("3\r\ntwo\r\n0\r\n\r\n").await;
    upstream.expect("3\r\ntwo\r\n0\r\n\r\n").await;
    upstream.send("3\r\nowt\r\n0\r\n\r\n").await;
    client.expect("3\r\nowt\r\n0\r\n\r\n").await;
}
