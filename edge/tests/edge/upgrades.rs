//! Other protocols: which ones a client may request from a module, over HTTP/1.1 and over HTTP/2, and the result for
//! any other. The module accepts every request, so that only the gateway can refuse it.

use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::ext::Protocol;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::{Version, tls};
use crate::http1::scripted;
use crate::raw::{Raw, SOON};
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/x";

/// A module that accepts every upgrade: it then speaks HTTP/2 for `h2c`, and echoes otherwise. A request without an
/// upgrade gets a 200 with the `Upgrade` and `Connection` headers received.
async fn agrees_to_everything(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        let upstream = Raw::upstream_at_last(&listener).await;
        connections.spawn(module(upstream));
    }
}

async fn module(mut upstream: Raw<TcpStream>) {
    while let Some(asked) = upstream.next_head().await {
        let Some(protocol) = asked.header("upgrade") else {
            let saw = format!("{:?} {:?}", asked.header("upgrade"), asked.header("connection"));
            upstream.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{saw}", saw.len())).await;
            continue;
        };
        upstream
            .send(format!(
                "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: {protocol}\r\n\r\n"
            ))
            .await;
        if protocol == "h2c" {
            return http2(upstream.stream).await;
        }
        let mut bytes = [0; 1_024];
        while let Ok(length @ 1..) = upstream.stream.read(&mut bytes).await {
            upstream.send(&bytes[..length]).await;
        }
        return;
    }
}

/// Answers every request with its path and its user.
async fn http2(stream: TcpStream) {
    let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
    while let Some(Ok((request, mut reply))) = connection.accept().await {
        let user = request.headers().get("x-user-id").map_or("nobody", |user| user.to_str().expect("text"));
        let told = format!("{} as {user}", request.uri().path());
        let mut body = reply.send_response(Response::new(()), false).expect("sent");
        body.send_data(Bytes::from(told), true).expect("sent");
    }
}

/// The result for a client that requests this protocol by extended CONNECT and then sends the protocol's first bytes.
async fn by_http2(world: &World, bearer: &str, protocol: &'static str) -> String {
    let io = TokioIo::new(tls(world.tls, &world.root, Version::H2).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, Empty<Bytes>>(TokioExecutor::new(), io)
            .await
            .expect("HTTP/2");
    let mut tasks = JoinSet::new();
    tasks.spawn(async { drop(connection.await) });
    // The client may send it once it has the server's settings; an answered request shows that it has.
    let probe = Request::builder().uri("https://localhost:8443/healthz").body(Empty::new());
    sender.send_request(probe.expect("a request")).await.expect("an answer");
    let mut request = Request::builder()
        .method(Method::CONNECT)
        .uri(format!("https://localhost:8443{PATH}"))
        .header("authorization", bearer);
    request.extensions_mut().expect("extensions").insert(Protocol::from_static(protocol));
    let asked = sender.send_request(request.body(Empty::new()).expect("a request"));
    let response = timeout(SOON, asked).await.expect("in time").expect("an answer");
    if response.status() != 200 {
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.expect("a body").to_bytes();
        let body: Value = serde_json::from_slice(&body).expect("JSON");
        return format!("{status} {}", body["error"]["code"].as_str().expect("a code"));
    }
    let stream = TokioIo::new(hyper::upgrade::on(response).await.expect("a stream"));
    format!("200, {}", timeout(SOON, through(stream, protocol)).await.expect("in time"))
}

/// What comes back through a tunnel.
async fn through<S>(mut stream: S, protocol: &str) -> String
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    if protocol != "h2c" {
        let mut back = [0; 5];
        let echoed = async {
            stream.write_all(b"hello").await?;
            stream.flush().await?;
            stream.read_exact(&mut back).await
        };
        if echoed.await.is_err() {
            return "a tunnel that leads nowhere".to_owned();
        }
        return format!("an echo: {}", String::from_utf8_lossy(&back));
    }
    let (mut sender, connection) = h2::client::handshake(stream).await.expect("HTTP/2 in the tunnel");
    let mut tasks = JoinSet::new();
    tasks.spawn(async { drop(connection.await) });
    let request = Request::builder().uri("http://localhost/internal/secrets").header("x-user-id", "root");
    let (answer, _) = sender.send_request(request.body(()).expect("a request"), true).expect("sent");
    let mut body = answer.await.expect("an answer").into_body();
    let told = body.data().await.expect("a body").expect("no error");
    format!("through the tunnel: {}", String::from_utf8_lossy(&told))
}

/// The same over HTTP/1.1, with these lines in the head.
async fn by_http1(world: &World, bearer: &str, lines: &str) -> String {
    let mut client = Raw::client(world).await;
    client
        .send(format!("GET {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: {bearer}\r\n{lines}\r\n"))
        .await;
    let head = client.head().await;
    if head.status() == 101 {
        client.send("hello").await;
        client.expect("hello").await;
        return format!("101 {}, an echo: hello", head.header("upgrade").expect("a protocol"));
    }
    format!("{} {}", head.status(), client.body(&head).await)
}

const PLAIN: &str = "200 None None";

#[tokio::test]
async fn only_a_websocket_is_tunnelled_over_http_2_and_any_other_protocol_is_501() {
    let (world, listener, bearer) = scripted(&[]).await;
    let mut upstream = JoinSet::new();
    upstream.spawn(agrees_to_everything(listener));
    for protocol in ["h2c", "h2", "http", "HTTP/2.0", "tls/1.2", "connect-udp", "websocket2", "chat", "x/1"] {
        assert_eq!(by_http2(&world, &bearer, protocol).await, "501 NOT_IMPLEMENTED", "{protocol}");
    }
    for protocol in ["websocket", "WebSocket"] {
        assert_eq!(by_http2(&world, &bearer, protocol).await, "200, an echo: hello", "{protocol}");
    }
}

#[tokio::test]
async fn any_other_upgrade_of_http_1_is_dropped_and_the_request_goes_on() {
    let (world, listener, bearer) = scripted(&[]).await;
    let mut upstream = JoinSet::new();
    upstream.spawn(agrees_to_everything(listener));
    for lines in [
        "connection: upgrade\r\nupgrade: h2c\r\n",
        "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n",
        "connection: upgrade\r\nupgrade: chat\r\n",
        "connection: upgrade\r\nupgrade: websocket/13\r\n",
        "connection: upgrade\r\nupgrade: websocket, chat\r\n",
        "connection: upgrade\r\nupgrade: chat, websocket\r\n",
        "connection: upgrade\r\nupgrade: websocket, websocket\r\n",
        "connection: upgrade\r\nupgrade: websocket\r\nupgrade: h2c\r\n",
        "connection: upgrade\r\nupgrade: \r\n",
        "upgrade: websocket\r\n",
    ] {
        assert_eq!(by_http1(&world, &bearer, lines).await, PLAIN, "{lines:?}");
    }
    for name in ["websocket", "WebSocket", "WEBSOCKET "] {
        let lines = format!("connection: upgrade\r\nupgrade: {name}\r\n");
        assert_eq!(by_http1(&world, &bearer, &lines).await, "101 websocket, an echo: hello", "{name}");
    }
}

#[tokio::test]
async fn operators_add_protocols_by_their_whole_names() {
    let (world, listener, bearer) = scripted(&[("PLATFORM_GATEWAY_UPGRADES", "Chat/2, rpc")]).await;
    let mut upstream = JoinSet::new();
    upstream.spawn(agrees_to_everything(listener));
    for (protocol, allowed) in [
        ("chat/2", true),
        ("rpc", true),
        ("websocket", true),
        ("chat", false),
        ("rpc/1", false),
        ("h2c", false),
    ] {
        let expected = if allowed { "200, an echo: hello" } else { "501 NOT_IMPLEMENTED" };
        assert_eq!(by_http2(&world, &bearer, protocol).await, expected, "{protocol}");
        let lines = format!("connection: upgrade\r\nupgrade: {protocol}\r\n");
        let expected = if allowed { format!("101 {protocol}, an echo: hello") } else { PLAIN.to_owned() };
        assert_eq!(by_http1(&world, &bearer, &lines).await, expected, "{protocol}");
    }
}

#[tokio::test]
async fn a_101_must_name_the_protocol_that_was_asked_for() {
    let (world, listener, bearer) = scripted(&[]).await;
    for (lines, http1, http2) in [
        ("upgrade: h2c\r\n", "503", "503 MODULE_UNAVAILABLE"),
        ("upgrade: websocket, h2c\r\n", "503", "503 MODULE_UNAVAILABLE"),
        ("upgrade: websocket\r\nupgrade: h2c\r\n", "503", "503 MODULE_UNAVAILABLE"),
        ("", "503", "503 MODULE_UNAVAILABLE"),
        ("upgrade: websocket\r\n", "101 websocket, an echo: hello", "200, an echo: hello"),
        ("Upgrade: WebSocket \r\n", "101 WebSocket, an echo: hello", "200, an echo: hello"),
    ] {
        let answer = format!("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n{lines}\r\n");
        let switch = || async {
            let mut upstream = Raw::upstream(&listener).await;
            upstream.head().await;
            upstream.send(&answer).await;
            let mut bytes = [0; 5];
            while let Ok(length @ 1..) = upstream.stream.read(&mut bytes).await {
                upstream.send(&bytes[..length]).await;
            }
        };
        let upgrade = "connection: upgrade\r\nupgrade: websocket\r\n";
        let asked = async { by_http1(&world, &bearer, upgrade).await };
        let (seen, ()) = tokio::join!(asked, switch());
        assert!(seen.starts_with(http1), "{lines:?}: {seen}");
        if http1 == "503" {
            assert!(seen.contains("malformed_answer"), "{lines:?}: {seen}");
        }
        let (seen, ()) = tokio::join!(by_http2(&world, &bearer, "websocket"), switch());
        assert_eq!(seen, http2, "{lines:?}");
    }
}

#[tokio::test]
async fn an_answer_that_is_no_tunnel_is_not_taken_for_one_over_http_2() {
    let (world, listener, bearer) = scripted(&[]).await;
    for (status, expected) in [("200 OK", "501 NOT_IMPLEMENTED"), ("204 No Content", "501 NOT_IMPLEMENTED")] {
        let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\n\r\n");
        let upstream = async {
            let mut upstream = Raw::upstream(&listener).await;
            upstream.head().await;
            upstream.send(&answer).await;
        };
        let (seen, ()) = tokio::join!(by_http2(&world, &bearer, "websocket"), upstream);
        assert_eq!(seen, expected, "{status}");
    }
    let refusal = r#"{"error":{"code":"FORBIDDEN","message":"no","details":null}}"#;
    let upstream = async {
        let mut upstream = Raw::upstream(&listener).await;
        upstream.head().await;
        let length = refusal.len();
        upstream.send(format!("HTTP/1.1 403 Forbidden\r\ncontent-length: {length}\r\n\r\n{refusal}")).await;
        upstream.rest().await
    };
    let mut upstream = Box::pin(upstream);
    let seen = tokio::select! {
        seen = by_http2(&world, &bearer, "websocket") => seen,
        _ = &mut upstream => panic!("the edge closes a connection that it could keep"),
    };
    assert_eq!(seen, "403 FORBIDDEN", "a module's own refusal goes on");
}
