//! Several hosts, other protocols, and misbehaving upstreams: every failure has its answer and its time limit.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Incoming;
use hyper::ext::Protocol;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::backend::{Answer, Backend};
use crate::client::{BOTH, Version, request, tls};
use crate::fairness::forwarded_statuses;
use crate::metrics::{scrape, text};
use crate::raw::{Raw, SOON};
use crate::tls_upstream::Authority;
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/x";

async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, address)
}

#[tokio::test]
async fn a_host_that_cannot_be_dialled_is_passed_over() {
    let (one, other) = (Backend::start().await, Backend::start().await);
    let hosts = format!("127.0.0.1:9, {}, {}", one.address, other.address);
    let world = World::with(&[("PLATFORM_MODULE_HOST_TIMESHEET", &hosts)]).await;
    let bearer = world.bearer("alice");
    for _ in 0..40 {
        // Two connections at a time, so that both live hosts have work.
        let auth = [("authorization", bearer.as_str())];
        let (first, second) = tokio::join!(world.post(PATH, &auth, "{}"), world.get(PATH, &auth));
        assert_eq!((first.status, second.status), (200, 200));
    }
    assert!(one.seen(PATH).len() > 5 && other.seen(PATH).len() > 5, "both are used");
}

#[tokio::test]
async fn so_many_requests_are_under_way_as_many_wait_and_the_next_is_told_so() {
    let world = World::with(&[("PLATFORM_GATEWAY_UPSTREAM_CONCURRENCY", "2")]).await;
    let bearer = world.bearer("alice");
    world.backend.on_path(PATH, Answer::Hang);
    let mut asked = JoinSet::new();
    for _ in 0..4 {
        let mut client = world.client(Version::H1).await;
        let hanging = request(Method::GET, PATH, &[("authorization", &bearer)], "");
        asked.spawn(async move { client.open(hanging).await.map(|response| response.status().as_u16()) });
    }
    let arrived = async {
        while world.backend.seen(PATH).len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, arrived).await.expect("two are under way");
    // The third and the fourth wait; the next one is refused at once, unless one of them has not arrived yet.
    let turned_away = async {
        loop {
            let began = Instant::now();
            let reply = world.get(PATH, &[("authorization", &bearer)]).await;
            assert_eq!((reply.status, reply.code().as_str()), (503, "MODULE_UNAVAILABLE"));
            assert_eq!(reply.json()["error"]["details"]["reason"], "over_capacity");
            if began.elapsed() < Duration::from_secs(1) {
                break;
            }
        }
    };
    timeout(SOON, turned_away).await.expect("in time");
    assert_eq!(world.backend.seen(PATH).len(), 2, "no more than two at once");
    let metrics = scrape(&world).await;
    assert!(forwarded_statuses(text(&metrics)).is_empty(), "those turned away are not forwarded");
}

/// A WebSocket handshake, byte by byte, and an upstream that echoes.
async fn echo(listener: TcpListener) {
    loop {
        let mut upstream = Raw::upstream(&listener).await;
        let asked = upstream.head().await;
        assert_eq!(asked.first, format!("GET {PATH} HTTP/1.1"));
        assert_eq!(
            (asked.header("connection"), asked.header("upgrade")),
            (Some("upgrade"), Some("websocket"))
        );
        assert_eq!(asked.header("sec-websocket-version"), Some("13"));
        assert_eq!(asked.header("sec-websocket-key").expect("a key").len(), 24);
        upstream
            .send("HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-accept: x\r\n\r\nhello")
            .await;
        let mut bytes = [0; 1_024];
        while let Ok(length @ 1..) = upstream.stream.read(&mut bytes).await {
            upstream.send(&bytes[..length]).await;
        }
    }
}

#[tokio::test]
async fn a_websocket_passes_in_http_1() {
    let (listener, address) = listener().await;
    let world = World::with(&[("PLATFORM_MODULE_HOST_TIMESHEET", &address)]).await;
    let bearer = world.bearer("alice");
    let mut upstream = JoinSet::new();
    upstream.spawn(echo(listener));
    let mut client = Raw::client(&world).await;
    client
        .send(format!(
            "GET {PATH} HTTP/1.1\r\nhost: a\r\nauthorization: {bearer}\r\nconnection: keep-alive, Upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nearly"
        ))
        .await;
    let head = client.head().await;
    assert_eq!((head.status(), head.header("upgrade")), (101, Some("websocket")));
    assert_eq!(
        (head.header("connection"), head.header("sec-websocket-accept")),
        (Some("upgrade"), Some("x"))
    );
    client.expect("helloearly").await;
    for number in 0..100 {
        let message = format!("message {number}");
        client.send(&message).await;
        client.expect(&message).await;
    }
    client.stream.shutdown().await.expect("a goodbye");
    assert_eq!(client.rest().await, "");
}

#[tokio::test]
async fn a_websocket_over_http_2_is_translated() {
    let (listener, address) = listener().await;
    let world = World::with(&[("PLATFORM_MODULE_HOST_TIMESHEET", &address)]).await;
    let bearer = world.bearer("alice");
    let mut tasks = JoinSet::new();
    tasks.spawn(echo(listener));
    let io = TokioIo::new(tls(world.tls, &world.root, Version::H2).await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, http_body_util::Empty<Bytes>>(TokioExecutor::new(), io)
            .await
            .expect("HTTP/2");
    tasks.spawn(async { drop(connection.await) });
    let ask = || {
        let mut request = Request::builder()
            .method(Method::CONNECT)
            .uri(format!("https://localhost:8443{PATH}"))
            .header("authorization", &bearer)
            .header("sec-websocket-version", "13");
        request.extensions_mut().expect("extensions").insert(Protocol::from_static("websocket"));
        request.body(http_body_util::Empty::new()).expect("a request")
    };
    // The client may send it once it has the server's settings; an answered request shows that it has.
    let probe = Request::builder().uri("https://localhost:8443/healthz");
    sender
        .send_request(probe.body(http_body_util::Empty::new()).expect("a request"))
        .await
        .expect("an answer");
    let response = timeout(SOON, sender.send_request(ask())).await.expect("in time").expect("an answer");
    assert_eq!((response.status().as_u16(), response.headers().get("sec-websocket-accept")), (200, None));
    let mut stream = TokioIo::new(hyper::upgrade::on(response).await.expect("a stream"));
    let mut bytes = [0; 64];
    timeout(SOON, stream.read_exact(&mut bytes[..5])).await.expect("in time").expect("a greeting");
    assert_eq!(&bytes[..5], b"hello");
    for number in 0..100 {
        let message = format!("message {number}");
        stream.write_all(message.as_bytes()).await.expect("written");
        let back = &mut bytes[..message.len()];
        timeout(SOON, stream.read_exact(back)).await.expect("in time").expect("an echo");
        assert_eq!(back, message.as_bytes());
    }
    // Far more than every window on the path, in both directions at once.
    let large: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_be_bytes).collect();
    let (mut read, mut write) = tokio::io::split(stream);
    let mut back = vec![0; large.len()];
    let (sent, received) =
        timeout(SOON * 4, async { tokio::join!(write.write_all(&large), read.read_exact(&mut back)) })
            .await
            .expect("in time");
    sent.expect("written");
    received.expect("all of it");
    assert!(back == large, "every byte in its place");
    write.shutdown().await.expect("ended");
    assert_eq!(timeout(SOON, read.read(&mut back)).await.expect("in time").expect("the end"), 0);
}

/// A gRPC-like service without TLS: echoes the body, with a status in the trailers.
async fn echo_with_trailers(request: Request<Incoming>) -> Result<Response<crate::client::Body>, Infallible> {
    assert_eq!(request.headers()["te"], "trailers");
    assert_eq!(request.uri().authority().expect("an authority").as_str(), "localhost:8443");
    let frames = futures_util::stream::unfold(Some(request.into_body()), |body| async {
        let mut body = body?;
        match body.frame().await {
            Some(Ok(frame)) => Some((Ok(frame), Some(body))),
            Some(Err(error)) => Some((Err(std::io::Error::other(error)), None)),
            None => {
                let trailers = HeaderMap::from_iter([(
                    http::HeaderName::from_static("grpc-status"),
                    HeaderValue::from_static("0"),
                )]);
                Some((Ok(Frame::trailers(trailers)), None))
            }
        }
    });
    let mut response = Response::new(BodyExt::boxed(StreamBody::new(Box::pin(frames))));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    Ok(response)
}

async fn serve_h2c(listener: TcpListener) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(async move {
            let service = hyper::service::service_fn(echo_with_trailers);
            let _ended = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

#[tokio::test]
async fn an_http_2_upstream_streams_both_ways_and_its_trailers_arrive() {
    let (listener, address) = listener().await;
    let mut upstream = JoinSet::new();
    upstream.spawn(serve_h2c(listener));
    let hosts = format!("h2c://{address}");
    let world = World::with(&[("PLATFORM_MODULE_HOST_TIMESHEET", &hosts)]).await;
    let bearer = world.bearer("alice");
    for version in BOTH {
        let (send, receive) = tokio::sync::mpsc::unbounded_channel::<Bytes>();
        let frames = futures_util::stream::unfold(receive, |mut receive| async {
            receive.recv().await.map(|chunk| (Ok(Frame::data(chunk)), receive))
        });
        let asked = Request::builder()
            .method(Method::POST)
            .uri(PATH)
            .header("authorization", &bearer)
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .body(BodyExt::boxed(StreamBody::new(frames)))
            .expect("a request");
        let mut client = world.client(version).await;
        send.send(Bytes::from("first")).expect("the client sends");
        let response = timeout(SOON, client.open(asked)).await.expect("in time").expect("a head");
        assert_eq!(response.status(), 200, "{version:?}");
        let mut body = response.into_body();
        for message in ["first", "second", "third"] {
            if message != "first" {
                send.send(Bytes::from(message)).expect("the client sends");
            }
            let frame =
                timeout(SOON, body.frame()).await.expect("in time").expect("a frame").expect("no error");
            assert_eq!(frame.into_data().expect("data"), message, "{version:?}");
        }
        drop(send);
        let last = timeout(SOON, body.frame()).await.expect("in time").expect("a frame").expect("no error");
        assert_eq!(last.into_trailers().expect("trailers")["grpc-status"], "0", "{version:?}");
    }
}

#[tokio::test]
async fn an_upstream_with_tls_is_verified() {
    let authority = Authority::new();
    let (listener, address) = listener().await;
    let port = address.rsplit(':').next().expect("a port").to_owned();
    let acceptor = authority.acceptor(&rustls::version::TLS13);
    let mut upstream = JoinSet::new();
    upstream.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let mut upstream = Raw::on(stream);
            upstream.head().await;
            upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}").await;
        }
    });
    let hosts = format!("https://localhost:{port}");
    let trusting = World::with(&[
        ("PLATFORM_MODULE_HOST_TIMESHEET", &hosts),
        ("PLATFORM_GATEWAY_UPSTREAM_CA", &authority.file()),
    ])
    .await;
    let bearer = trusting.bearer("alice");
    assert_eq!(trusting.get(PATH, &[("authorization", &bearer)]).await.status, 200);
    let doubting = World::with(&[("PLATFORM_MODULE_HOST_TIMESHEET", &hosts)]).await;
    let bearer = doubting.bearer("alice");
    let reply = doubting.get(PATH, &[("authorization", &bearer)]).await;
    assert_eq!(
        (reply.status, reply.json()["error"]["details"]["reason"].as_str()),
        (503, Some("dial_failed"))
    );
}

/// The upstream's behaviour once it has the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Misdeed {
    HangsBeforeHead,
    HangsInHead,
    ResetsMidBody,
    ClosesMidBody,
    ClosesMidChunks,
    Drips,
    TwoFramings,
    TwoLengths,
    Garbage,
    HugeHead,
    UnaskedUpgrade,
    ClosesAtOnce,
    BadChunk,
}

const MISDEEDS: [Misdeed; 13] = [
    Misdeed::HangsBeforeHead,
    Misdeed::HangsInHead,
    Misdeed::ResetsMidBody,
    Misdeed::ClosesMidBody,
    Misdeed::ClosesMidChunks,
    Misdeed::Drips,
    Misdeed::TwoFramings,
    Misdeed::TwoLengths,
    Misdeed::Garbage,
    Misdeed::HugeHead,
    Misdeed::UnaskedUpgrade,
    Misdeed::ClosesAtOnce,
    Misdeed::BadChunk,
];

/// How long a drip takes.
const DRIPS: usize = 20;

/// Faults after the head start once the client has it: on HTTP/2 a reset may overtake a head.
async fn misbehave(listener: &TcpListener, misdeed: Misdeed, begun: &Notify) {
    let mut upstream = Raw::upstream(listener).await;
    upstream.head().await;
    let head = |framing: &str| format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n");
    let chunked = head("transfer-encoding: chunked");
    match misdeed {
        Misdeed::HangsBeforeHead => {}
        Misdeed::HangsInHead => upstream.send("HTTP/1.1 200 OK\r\nx-half: ").await,
        Misdeed::ResetsMidBody => {
            upstream.send(head("content-length: 100") + "half").await;
            begun.notified().await;
            upstream.stream.set_zero_linger().expect("a reset");
            return;
        }
        Misdeed::ClosesMidBody => {
            upstream.send(head("content-length: 100") + "half").await;
            return begun.notified().await;
        }
        Misdeed::ClosesMidChunks => {
            upstream.send(chunked + "4\r\nhalf\r\n").await;
            return begun.notified().await;
        }
        Misdeed::BadChunk => {
            upstream.send(chunked + "4\r\nhalf").await;
            begun.notified().await;
            upstream.send("X").await;
        }
        Misdeed::Drips => {
            upstream.send(head(&format!("content-length: {DRIPS}"))).await;
            for _ in 0..DRIPS {
                tokio::time::sleep(Duration::from_millis(50)).await;
                upstream.send("x").await;
            }
        }
        Misdeed::TwoFramings => {
            upstream.send(head("content-length: 5\r\ntransfer-encoding: chunked") + "0\r\n\r\n").await;
        }
        Misdeed::TwoLengths => upstream.send(head("content-length: 5\r\ncontent-length: 6") + "hello").await,
        Misdeed::Garbage => upstream.send("SSH-2.0-OpenSSH\r\n\r\n").await,
        Misdeed::HugeHead => {
            let line = format!("x: {}\r\n", "x".repeat(10_000));
            // The gateway stops reading long before the ten megabytes are sent.
            let _cut = upstream
                .stream
                .write_all(("HTTP/1.1 200 OK\r\n".to_owned() + &line.repeat(1_000)).as_bytes())
                .await;
        }
        Misdeed::UnaskedUpgrade => {
            upstream
                .send("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n")
                .await;
        }
        Misdeed::ClosesAtOnce => return,
    }
    // Until the gateway closes the connection.
    upstream.rest().await;
}

/// The client's view: a complete answer, or one that broke off.
async fn outcome(world: &World, version: Version, bearer: &str, begun: &Notify) -> String {
    let mut client = world.client(version).await;
    let asked = request(Method::POST, PATH, &[("authorization", bearer)], "{}");
    let response = match client.open(asked).await {
        Ok(response) => response,
        Err(error) => return format!("no answer: {error}"),
    };
    begun.notify_one();
    let status = response.status().as_u16();
    match response.into_body().collect().await {
        Err(_) => format!("{status}, cut off"),
        Ok(body) => {
            let body = body.to_bytes();
            let reason = serde_json::from_slice::<serde_json::Value>(&body).ok();
            let reason =
                reason.and_then(|body| Some(body["error"]["details"]["reason"].as_str()?.to_owned()));
            format!("{status}, {}", reason.unwrap_or_else(|| format!("{} bytes", body.len())))
        }
    }
}

/// The default timeouts: the black hole takes its 2 s and the silent upstreams their 5 s, all at the same time.
#[tokio::test]
async fn every_misdeed_of_an_upstream_has_its_answer_and_its_time() {
    let mut running = JoinSet::new();
    for (misdeed, version) in MISDEEDS.iter().flat_map(|misdeed| BOTH.map(|version| (*misdeed, version))) {
        running.spawn(async move {
            let (listener, address) = listener().await;
            let world = World::with(&[("PLATFORM_MODULE_HOST_TIMESHEET", &address)]).await;
            let bearer = world.bearer("alice");
            let start = Instant::now();
            let begun = Arc::new(Notify::new());
            let told = Arc::clone(&begun);
            let asked = async { (outcome(&world, version, &bearer, &begun).await, start.elapsed()) };
            let mut upstream = JoinSet::new();
            upstream.spawn(async move { misbehave(&listener, misdeed, &told).await });
            let (seen, took) = asked.await;
            (format!("{misdeed:?}"), version, seen, took)
        });
    }
    for (name, host) in [("DialRefused", "127.0.0.1:9"), ("DialBlackHole", "")] {
        for version in BOTH {
            running.spawn(async move {
                let hole = black_hole().await;
                let host = if host.is_empty() { hole.0.clone() } else { host.to_owned() };
                let world = World::with(&[("PLATFORM_MODULE_HOST_TIMESHEET", &host)]).await;
                let bearer = world.bearer("alice");
                let began = Instant::now();
                (
                    name.to_owned(),
                    version,
                    outcome(&world, version, &bearer, &Notify::new()).await,
                    began.elapsed(),
                )
            });
        }
    }
    let mut rows = running.join_all().await;
    rows.sort_by_key(|row| (row.0.clone(), format!("{:?}", row.1)));
    let mut table = String::new();
    for (name, version, seen, took) in &rows {
        writeln!(table, "{name:16} {version:?} {seen:40} {:6.2} s", took.as_secs_f64()).expect("text");
    }
    println!("{table}");
    for (name, _, seen, took) in &rows {
        let (answer, least, most) = expected(name);
        assert_eq!(seen, answer, "{name}\n{table}");
        assert!((least..most).contains(&took.as_secs_f64()), "{name}\n{table}");
    }
}

/// The answer and the time; the upper bounds allow for a busy machine.
fn expected(name: &str) -> (&'static str, f64, f64) {
    match name {
        "DialRefused" => ("503, connect_refused", 0.0, 2.0),
        "DialBlackHole" => ("503, dial_timeout", 2.0, 4.0),
        "HangsBeforeHead" | "HangsInHead" => ("503, first_byte_timeout", 5.0, 7.0),
        "ResetsMidBody" | "ClosesMidBody" | "ClosesMidChunks" | "BadChunk" => ("200, cut off", 0.0, 2.0),
        "Drips" => ("200, 20 bytes", 1.0, 4.0),
        "ClosesAtOnce" => ("503, reset", 0.0, 2.0),
        _ => ("503, malformed_answer", 0.0, 4.0),
    }
}

/// An address whose backlog is full, so that dialling it gets no reply.
async fn black_hole() -> (String, TcpListener, Vec<tokio::net::TcpStream>) {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let listener = socket.listen(0).expect("a queue");
    let address = listener.local_addr().expect("an address");
    let mut waiting = Vec::new();
    while let Ok(Ok(stream)) =
        timeout(Duration::from_millis(200), tokio::net::TcpStream::connect(address)).await
    {
        waiting.push(stream);
    }
    (address.to_string(), listener, waiting)
}
