//! Upstreams that speak HTTP/2: dead connections, unreachable hosts, unsolicited frames. Most are written frame by
//! frame, for behaviour that a well-behaved server never shows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method};
use http_body::Frame;
use http_body_util::BodyExt;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::backend::Backend;
use crate::client::{BOTH, Reply, Version, request, streamed};
use crate::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, RST_STREAM, WINDOW_UPDATE, append_length,
};
use crate::peer::{OK, Peer, STATUS};
use crate::raw::{Raw, SOON};
use crate::world::World;

const ALICE: &str = "/api/timesheet/v1/alice";
const BOB: &str = "/api/timesheet/v1/bob";
/// The first-byte budget unless a test sets another.
const FIRST_BYTE: Duration = Duration::from_secs(5);
const PUSH_PROMISE: u8 = 5;

/// The header block of an informational answer with a link of this many bytes.
fn hint(bytes: usize) -> Vec<u8> {
    let mut block = vec![STATUS, 3, b'1', b'0', b'3', 0, 4];
    block.extend_from_slice(b"link");
    append_length(&mut block, bytes);
    block.extend(std::iter::repeat_n(b'x', bytes));
    block
}

async fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    (listener, format!("h2c://{address}"))
}

/// A gateway with one worker, so that all requests use the same connection.
async fn world(hosts: &str, more: &[(&str, &str)]) -> World {
    let own = [("PLATFORM_MODULE_HOST_TIMESHEET", hosts), ("PLATFORM_GATEWAY_WORKERS", "1")];
    World::with(&[&own[..], more].concat()).await
}

async fn ask(world: &World, version: Version, method: Method, user: &str, path: &str) -> Reply {
    let bearer = world.bearer(user);
    let body = if method == Method::POST { "{}" } else { "" };
    let headers = [("authorization", bearer.as_str())];
    let asked = world.send(version, method, path, &headers, body);
    timeout(SOON * 3, asked).await.expect("an answer in time")
}

fn text(reply: &Reply) -> (u16, String) {
    let reason = || Some(reply.json()["error"]["details"]["reason"].as_str()?.to_owned());
    let body = || String::from_utf8_lossy(&reply.body).into_owned();
    (reply.status, if reply.status == 200 { body() } else { reason().unwrap_or_else(body) })
}

/// An upstream whose first connection stops responding on request, and whose other connections work.
async fn falls_silent(listener: TcpListener, silent: Arc<Notify>, connections: Arc<AtomicUsize>) {
    let mut others = JoinSet::new();
    let mut first = Peer::accept(&listener, &[]).await;
    connections.fetch_add(1, Ordering::SeqCst);
    tokio::select! {
        () = first.serve() => panic!("the edge has closed its connection"),
        () = silent.notified() => {}
    }
    loop {
        let mut peer = Peer::accept(&listener, &[]).await;
        connections.fetch_add(1, Ordering::SeqCst);
        others.spawn(async move { peer.serve().await });
    }
}

#[tokio::test]
async fn a_dead_connection_is_found_by_a_ping_and_takes_no_further_request() {
    for (method, expected) in
        [(Method::GET, (200, "own 1".to_owned())), (Method::POST, (503, "reset".to_owned()))]
    {
        let (listener, host) = listener().await;
        let (silent, connections) = (Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let mut upstream = JoinSet::new();
        upstream.spawn(falls_silent(listener, Arc::clone(&silent), Arc::clone(&connections)));
        let world = world(&host, &[]).await;
        assert_eq!(
            text(&ask(&world, Version::H1, Method::GET, "alice", ALICE).await),
            (200, "own 1".to_owned())
        );
        assert_eq!(
            text(&ask(&world, Version::H2, Method::POST, "bob", BOB).await),
            (200, "own 3".to_owned())
        );
        silent.notify_one();
        let began = Instant::now();
        let reply = ask(&world, Version::H1, method.clone(), "bob", BOB).await;
        assert_eq!(text(&reply), expected, "{method}: what may be sent twice is");
        assert!(began.elapsed() < FIRST_BYTE, "{:?}", began.elapsed());
        let began = Instant::now();
        let (status, _) = text(&ask(&world, Version::H1, Method::POST, "alice", ALICE).await);
        assert_eq!((status, connections.load(Ordering::SeqCst)), (200, 2));
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    }
}

#[tokio::test]
async fn a_slow_answer_over_a_living_connection_is_waited_for_with_few_pings_and_a_silent_body_with_none() {
    const SLOW: Duration = Duration::from_secs(4);
    let (listener, host) = listener().await;
    let mut upstream = JoinSet::new();
    upstream.spawn(async move {
        let mut peer = Peer::accept(&listener, &[]).await;
        let stream = peer.request().await.expect("a request");
        assert!(timeout(SLOW, peer.request()).await.is_err(), "one request");
        let waiting = std::mem::take(&mut peer.pings);
        peer.send(HEADERS, END_HEADERS, stream, &[OK]).await;
        assert!(timeout(SLOW, peer.request()).await.is_err(), "one request");
        peer.send(DATA, END_STREAM, stream, b"slow").await;
        (waiting, peer)
    });
    let world = world(&host, &[]).await;
    assert_eq!(text(&ask(&world, Version::H1, Method::GET, "alice", ALICE).await), (200, "slow".to_owned()));
    let (waiting, peer) = upstream.join_next().await.expect("the upstream").expect("no panic");
    assert!((1..=3).contains(&waiting), "{waiting} pings in {SLOW:?}");
    assert_eq!(peer.pings, 0, "while the body is silent");
}

#[tokio::test]
async fn a_connection_without_an_answer_in_time_takes_no_further_request() {
    let (listener, host) = listener().await;
    let mut upstream = JoinSet::new();
    upstream.spawn(async move {
        let mut first = Peer::accept(&listener, &[]).await;
        let mut others = JoinSet::new();
        // It answers pings and nothing else.
        others.spawn(async move { while first.request().await.is_some() {} });
        loop {
            let mut peer = Peer::accept(&listener, &[]).await;
            others.spawn(async move { peer.serve().await });
        }
    });
    let world = world(&host, &[("PLATFORM_MODULE_RESPONSE_HEADER_TIMEOUT", "2s")]).await;
    let reply = ask(&world, Version::H1, Method::GET, "alice", ALICE).await;
    assert_eq!(text(&reply), (503, "first_byte_timeout".to_owned()));
    assert_eq!(text(&ask(&world, Version::H1, Method::POST, "bob", BOB).await), (200, "own 1".to_owned()));
}

/// An address that accepts no connection, because its backlog is full.
async fn black_hole() -> (String, TcpListener, Vec<TcpStream>) {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a port");
    let listener = socket.listen(0).expect("a queue");
    let address = listener.local_addr().expect("an address");
    let mut waiting = Vec::new();
    while let Ok(Ok(stream)) = timeout(Duration::from_millis(200), TcpStream::connect(address)).await {
        waiting.push(stream);
    }
    (address.to_string(), listener, waiting)
}

#[tokio::test]
async fn a_host_that_cannot_be_reached_is_passed_over_whatever_the_two_speak() {
    let hole = black_hole().await;
    let silent = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let silent = (silent.local_addr().expect("an address").port(), silent);
    for bad in [
        "127.0.0.1:9".to_owned(),
        "h2c://127.0.0.1:9".to_owned(),
        "https://localhost:9".to_owned(),
        hole.0.clone(),
        format!("h2c://{}", hole.0),
        // It accepts, but never completes the HTTP/2 handshake.
        format!("https://localhost:{}", silent.0),
    ] {
        for speaks_http2 in [true, false] {
            let (listener, h2c) = listener().await;
            let backend = Backend::start().await;
            let mut upstream = JoinSet::new();
            upstream.spawn(async move {
                let mut connections = JoinSet::new();
                loop {
                    let mut peer = Peer::accept(&listener, &[]).await;
                    connections.spawn(async move { peer.serve().await });
                }
            });
            let good = if speaks_http2 { h2c } else { backend.address.to_string() };
            let world = world(&format!("{bad}, {good}"), &[]).await;
            for number in 0..4 {
                let reply = ask(&world, Version::H1, Method::POST, "alice", ALICE).await;
                assert_eq!(reply.status, 200, "{bad}, {good}, {number}: {reply:?}");
            }
        }
    }
}

#[tokio::test]
async fn informational_answers_have_their_limits_over_http_2_as_well() {
    /// Bytes of a head of 4 KiB besides its link's.
    const FRAME: usize = "HTTP/1.1 103 \r\nlink: \r\n\r\n".len();
    let bad = (503, "bad_answer".to_owned());
    let good = (200, "own 1".to_owned());
    for (count, last, expected) in [
        (15, hint(1), &good),
        (16, hint(1), &bad),
        (15, hint(4_096 - FRAME), &good),
        (15, hint(4_097 - FRAME), &bad),
    ] {
        let first = if last.len() > 100 { hint(4_096 - FRAME) } else { hint(1) };
        for version in BOTH {
            let (listener, host) = listener().await;
            let blocks: Vec<_> = std::iter::repeat_n(first.clone(), count).chain([last.clone()]).collect();
            let mut upstream = JoinSet::new();
            upstream.spawn(async move {
                let mut peer = Peer::accept(&listener, &[]).await;
                let stream = peer.request().await.expect("a request");
                for block in blocks {
                    peer.send(HEADERS, END_HEADERS, stream, &block).await;
                }
                peer.answer(stream, "own 1").await;
                while peer.next().await.is_some() {}
            });
            let world = world(&host, &[]).await;
            let reply = ask(&world, version, Method::GET, "alice", ALICE).await;
            assert_eq!(&text(&reply), expected, "{count} and one of {} bytes", last.len());
        }
    }
}

#[tokio::test]
async fn an_upstream_that_only_informs_is_left_at_once() {
    let (listener, host) = listener().await;
    let mut upstream = JoinSet::new();
    upstream.spawn(async move {
        let mut peer = Peer::accept(&listener, &[]).await;
        let stream = peer.request().await.expect("a request");
        while peer.try_send(HEADERS, END_HEADERS, stream, &hint(1)).await {}
    });
    let world = world(&host, &[]).await;
    let began = Instant::now();
    let reply = ask(&world, Version::H2, Method::GET, "alice", ALICE).await;
    assert_eq!(text(&reply), (503, "bad_answer".to_owned()));
    assert!(began.elapsed() < FIRST_BYTE, "{:?}", began.elapsed());
    timeout(SOON, upstream.join_next()).await.expect("the edge closes the connection");
}

/// What the upstream sends beyond the first answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Excess {
    Nothing,
    AfterLength,
    OnHead,
    OnNoContent,
    OnNotModified,
    AfterTheEnd,
    /// For the request that comes next.
    InAdvance,
    OnItsOwnStream,
    Push,
    HalfFrame,
    HalfFrameHeader,
    Goodbye,
    End,
    Reset,
}

const EXCESS: [Excess; 14] = [
    Excess::Nothing,
    Excess::AfterLength,
    Excess::OnHead,
    Excess::OnNoContent,
    Excess::OnNotModified,
    Excess::AfterTheEnd,
    Excess::InAdvance,
    Excess::OnItsOwnStream,
    Excess::Push,
    Excess::HalfFrame,
    Excess::HalfFrameHeader,
    Excess::Goodbye,
    Excess::End,
    Excess::Reset,
];

/// The first answer and its excess, then the rest of unfinished frames unless the connection is over.
async fn misbehave(mut peer: Peer, excess: Excess, idle: &Notify, done: &Notify) -> Option<(Peer, Vec<u8>)> {
    let stream = peer.request().await?;
    // `content-length: 2`, not indexed.
    let (head, body): (&[u8], &[u8]) = match excess {
        Excess::AfterLength => (&[OK, 0x0f, 0x0d, 1, b'2'], b"okstray"),
        Excess::OnHead => (&[OK, 0x0f, 0x0d, 1, b'5'], b"stray"),
        Excess::OnNoContent => (&[0x89], b"stray"),
        Excess::OnNotModified => (&[0x8b], b"stray"),
        Excess::Nothing
        | Excess::AfterTheEnd
        | Excess::InAdvance
        | Excess::OnItsOwnStream
        | Excess::Push
        | Excess::HalfFrame
        | Excess::HalfFrameHeader
        | Excess::Goodbye
        | Excess::End
        | Excess::Reset => (&[OK], b"ok"),
    };
    peer.send(HEADERS, END_HEADERS, stream, head).await;
    peer.send(DATA, END_STREAM, stream, body).await;
    idle.notified().await;
    let stray = [
        Peer::frame(HEADERS, END_HEADERS, stream + 2, &[OK]),
        Peer::frame(DATA, END_STREAM, stream + 2, b"stray"),
    ]
    .concat();
    let mut kept = Vec::new();
    match excess {
        Excess::Nothing
        | Excess::AfterLength
        | Excess::OnHead
        | Excess::OnNoContent
        | Excess::OnNotModified => {}
        Excess::AfterTheEnd => peer.send(DATA, END_STREAM, stream, b"stray").await,
        Excess::InAdvance => peer.stream.write_all(&stray).await.expect("written"),
        Excess::OnItsOwnStream => peer.send(HEADERS, END_HEADERS | END_STREAM, 2, &[OK]).await,
        Excess::Push => peer.send(PUSH_PROMISE, END_HEADERS, stream, &[0, 0, 0, 2, 0x82, 0x87, 0x84]).await,
        Excess::HalfFrame | Excess::HalfFrameHeader => {
            let frame = Peer::frame(PING, ACK, 0, b"unasked!");
            let (now, later) = frame.split_at(if excess == Excess::HalfFrame { 12 } else { 4 });
            peer.stream.write_all(now).await.expect("written");
            kept = later.to_vec();
        }
        Excess::Goodbye => peer.send(GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]).await,
        Excess::End => peer.stream.shutdown().await.expect("ended"),
        Excess::Reset => {
            peer.stream.set_zero_linger().expect("a reset");
            drop(peer);
            done.notify_one();
            return None;
        }
    }
    done.notify_one();
    Some((peer, kept))
}

#[tokio::test]
async fn what_an_upstream_sends_beyond_an_answer_is_nobody_elses_answer_over_http_2_either() {
    let mut wrong = Vec::new();
    for excess in EXCESS {
        let (listener, host) = listener().await;
        let (idle, done, connections) =
            (Arc::new(Notify::new()), Arc::new(Notify::new()), Arc::new(AtomicUsize::new(0)));
        let mut upstream = JoinSet::new();
        let (told, tell, count) = (Arc::clone(&idle), Arc::clone(&done), Arc::clone(&connections));
        upstream.spawn(async move {
            let mut others = JoinSet::new();
            let first = Peer::accept(&listener, &[]).await;
            count.fetch_add(1, Ordering::SeqCst);
            others.spawn(async move {
                let Some((mut peer, kept)) = misbehave(first, excess, &told, &tell).await else { return };
                while let Some(stream) = peer.request().await {
                    if peer.stream.write_all(&kept).await.is_err() || !peer.answer(stream, "own").await {
                        return;
                    }
                }
            });
            loop {
                let mut peer = Peer::accept(&listener, &[]).await;
                count.fetch_add(1, Ordering::SeqCst);
                others.spawn(async move {
                    while let Some(stream) = peer.request().await {
                        peer.answer(stream, "own").await;
                    }
                });
            }
        });
        let world = world(&host, &[]).await;
        let method = if excess == Excess::OnHead { Method::HEAD } else { Method::GET };
        let bearer = world.bearer("alice");
        let mut alice = world.client(Version::H1).await;
        let opened =
            alice.open(request(method, ALICE, &[("authorization", &bearer)], "")).await.expect("an answer");
        // A body beyond its declared length is cut off.
        let whole = opened.into_body().collect().await.is_ok();
        idle.notify_one();
        timeout(SOON, done.notified()).await.expect("the upstream in time");
        let seen = text(&ask(&world, Version::H1, Method::POST, "bob", BOB).await);
        let over = matches!(
            excess,
            Excess::InAdvance
                | Excess::OnItsOwnStream
                | Excess::Push
                | Excess::Goodbye
                | Excess::End
                | Excess::Reset
        );
        let connections = connections.load(Ordering::SeqCst);
        if seen != (200, "own".to_owned())
            || (connections == 2) != over
            || whole == (excess == Excess::AfterLength)
        {
            wrong.push(format!("{excess:?}: {seen:?}, {connections} connections, whole: {whole}"));
        }
    }
    assert!(wrong.is_empty(), "the second user got\n{}", wrong.join("\n"));
}

#[tokio::test]
async fn an_answer_that_is_reset_before_its_end_never_looks_complete() {
    const NO_ERROR: [u8; 4] = [0, 0, 0, 0];
    const CANCEL: [u8; 4] = [0, 0, 0, 8];
    for reason in [NO_ERROR, CANCEL] {
        for version in BOTH {
            for ended in [false, true] {
                let (listener, host) = listener().await;
                let begun = Arc::new(Notify::new());
                let told = Arc::clone(&begun);
                let mut upstream = JoinSet::new();
                upstream.spawn(async move {
                    let mut peer = Peer::accept(&listener, &[]).await;
                    let stream = peer.request().await.expect("a request");
                    peer.send(HEADERS, END_HEADERS, stream, &[OK]).await;
                    told.notified().await;
                    peer.send(DATA, if ended { END_STREAM } else { 0 }, stream, b"half").await;
                    peer.send(RST_STREAM, 0, stream, &reason).await;
                    while peer.next().await.is_some() {}
                });
                let world = world(&host, &[]).await;
                let bearer = world.bearer("alice");
                let mut client = world.client(version).await;
                let asked = request(Method::GET, ALICE, &[("authorization", &bearer)], "");
                let opened = timeout(SOON, client.open(asked)).await.expect("in time").expect("a head");
                begun.notify_one();
                let body = timeout(SOON, opened.into_body().collect()).await.expect("in time");
                assert_eq!(body.is_ok(), ended, "{version:?}, {reason:?}");
            }
        }
    }
}

#[tokio::test]
async fn nothing_of_a_body_is_sent_after_the_end_of_its_answer() {
    // No window for any stream.
    const CLOSED: [u8; 6] = [0, 4, 0, 0, 0, 0];
    let (listener, host) = listener().await;
    let mut upstream = JoinSet::new();
    upstream.spawn(async move {
        let mut peer = Peer::accept(&listener, &CLOSED).await;
        let first = peer.next().await.expect("a head").stream;
        peer.answer(first, "early").await;
        let second = loop {
            let frame = peer.next().await.expect("a head");
            if frame.kind == HEADERS {
                break frame.stream;
            }
        };
        for stream in [first, second] {
            peer.send(WINDOW_UPDATE, 0, stream, &[0, 1, 0, 0]).await;
        }
        let mut bodies = Vec::new();
        loop {
            let frame = peer.next().await.expect("a body");
            if frame.kind == DATA {
                bodies.push((frame.stream, String::from_utf8(frame.payload).expect("text")));
                if frame.flags & END_STREAM != 0 && frame.stream == second {
                    break;
                }
            }
        }
        peer.answer(second, "late").await;
        (bodies, second)
    });
    let world = world(&host, &[]).await;
    let bearer = world.bearer("alice");
    let mut client = Raw::client(&world).await;
    let head = format!(
        "POST {ALICE} HTTP/1.1\r\nhost: a\r\nauthorization: {bearer}\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    client.send(&head).await;
    let answer = client.head().await;
    assert_eq!(answer.status(), 200);
    assert_eq!(client.line().await, "5");
    assert_eq!(client.line().await, "early");
    assert_eq!(client.line().await, "0");
    assert_eq!(client.line().await, "");
    // The end of the first body, and the second request.
    client.send(format!("5\r\nfirst\r\n0\r\n\r\n{head}6\r\nsecond\r\n0\r\n\r\n")).await;
    assert_eq!(client.head().await.status(), 200);
    let (bodies, second) = upstream.join_next().await.expect("the upstream").expect("no panic");
    let of_second: String =
        bodies.iter().filter(|(stream, _)| *stream == second).map(|(_, text)| text.as_str()).collect();
    let of_first: String =
        bodies.iter().filter(|(stream, _)| *stream != second).map(|(_, text)| text.as_str()).collect();
    assert_eq!((of_first.as_str(), of_second.as_str()), ("", "second"));
}

#[tokio::test]
async fn a_body_is_sent_no_faster_than_the_upstream_takes_it() {
    const WINDOW: usize = 65_535;
    const WHOLE: usize = 1 << 20;
    let (listener, host) = listener().await;
    let mut upstream = JoinSet::new();
    upstream.spawn(async move {
        let mut peer = Peer::accept(&listener, &[]).await;
        let stream = peer.next().await.expect("a head").stream;
        let mut received = 0;
        while received < WINDOW {
            received += peer.next().await.expect("a body").payload.len();
        }
        assert_eq!(received, WINDOW);
        // A ping's answer comes after everything sent before it.
        peer.send(PING, 0, 0, b"anymore?").await;
        let pong = loop {
            let frame = peer.read().await.expect("an open connection");
            if frame.kind == DATA || (frame.kind == PING && frame.flags & ACK != 0) {
                break frame;
            }
        };
        assert_eq!(pong.kind, PING, "nothing beyond the window");
        let more = u32::try_from(WHOLE).expect("a window").to_be_bytes();
        peer.send(WINDOW_UPDATE, 0, 0, &more).await;
        peer.send(WINDOW_UPDATE, 0, stream, &more).await;
        loop {
            let frame = peer.next().await.expect("a body");
            received += frame.payload.len();
            if frame.flags & END_STREAM != 0 {
                break;
            }
        }
        peer.answer(stream, &received.to_string()).await;
        peer.next().await;
    });
    let world = world(&host, &[]).await;
    let bearer = world.bearer("alice");
    let body = "x".repeat(WHOLE);
    let headers = [("authorization", bearer.as_str())];
    let sent = world.send(Version::H1, Method::POST, ALICE, &headers, &body);
    let reply = timeout(SOON * 2, sent).await.expect("in time");
    assert_eq!(text(&reply), (200, WHOLE.to_string()));
}

#[tokio::test]
async fn a_body_that_the_upstream_does_not_take_holds_up_no_other_request() {
    const WINDOW: usize = 65_535;
    let (listener, host) = listener().await;
    let held = Arc::new(Notify::new());
    let mut running = JoinSet::new();
    running.spawn({
        let held = Arc::clone(&held);
        async move {
            let mut peer = Peer::accept(&listener, &[]).await;
            peer.next().await.expect("a head");
            let mut received = 0;
            while received < WINDOW {
                received += peer.next().await.expect("a body").payload.len();
            }
            held.notify_one();
            // The connection's window is used up, too.
            let mut other = Peer::accept(&listener, &[]).await;
            let stream = other.next().await.expect("a head").stream;
            other.answer(stream, "answered").await;
            std::future::pending::<()>().await;
        }
    });
    let world = world(&host, &[("PLATFORM_GATEWAY_WORKERS", "1")]).await;
    let bearer = world.bearer("alice");
    let mut first = Raw::client(&world).await;
    let upload = format!(
        "POST {ALICE} HTTP/1.1\r\nhost: localhost\r\nauthorization: {bearer}\r\ncontent-length: 1048576\r\n\r\n{}",
        "x".repeat(1 << 20)
    );
    running.spawn(async move {
        first.try_send(upload).await;
        std::future::pending::<()>().await;
    });
    timeout(SOON, held.notified()).await.expect("a whole window comes");
    let headers = [("authorization", bearer.as_str())];
    let sent = world.send(Version::H1, Method::POST, ALICE, &headers, "small");
    let reply = timeout(SOON, sent).await.expect("over another connection");
    assert_eq!(text(&reply), (200, "answered".to_owned()));
}

/// `SETTINGS_MAX_HEADER_LIST_SIZE` of a module.
const MAX_HEAD: u32 = 8 << 10;

/// A module with that limit. It reads the request to its end and answers with the size of the received head (RFC 9113,
/// 10.5.1); it hangs where the path says so until it is released.
async fn limited(listener: TcpListener, connections: Arc<AtomicUsize>, go_on: Arc<Notify>) {
    let mut all = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        connections.fetch_add(1, Ordering::SeqCst);
        let go_on = Arc::clone(&go_on);
        all.spawn(async move {
            let mut builder = h2::server::Builder::new();
            let mut connection =
                builder.max_header_list_size(MAX_HEAD).handshake(stream).await.expect("a greeting");
            let mut requests = JoinSet::new();
            while let Some(Ok((mut request, mut reply))) = connection.accept().await {
                let go_on = Arc::clone(&go_on);
                requests.spawn(async move {
                    while request.body_mut().data().await.is_some_and(|read| read.is_ok()) {}
                    if request.body_mut().trailers().await.is_err() {
                        return;
                    }
                    if request.uri().path() == BOB {
                        go_on.notified().await;
                    }
                    let mut to = reply.send_response(http::Response::new(()), false).expect("an open stream");
                    let size = head_size(&request).to_string();
                    to.send_data(Bytes::from(size), true).expect("an open stream");
                });
            }
        });
    }
}

fn head_size(request: &http::Request<h2::RecvStream>) -> usize {
    let uri = request.uri();
    let pseudo = [
        (":method", request.method().as_str()),
        (":scheme", uri.scheme_str().expect("a scheme")),
        (":authority", uri.authority().expect("an authority").as_str()),
        (":path", uri.path_and_query().expect("a path").as_str()),
    ];
    let pseudo = pseudo.iter().map(|(name, value)| name.len() + value.len() + 32);
    let fields = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 32);
    pseudo.chain(fields).sum()
}

#[tokio::test]
async fn a_head_beyond_what_an_upstream_takes_is_refused_to_its_client_alone() {
    let (listener, host) = listener().await;
    let (connections, go_on) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let mut upstream = JoinSet::new();
    upstream.spawn(limited(listener, Arc::clone(&connections), Arc::clone(&go_on)));
    let world = world(&host, &[]).await;
    let alice = world.bearer("alice");
    let padded = async |version, bytes: usize| {
        let pad = "x".repeat(bytes);
        let id = "8c7e4a52-9d1f-4b0e-8c7e-4a529d1f4b0e";
        let headers = [("authorization", alice.as_str()), ("x-correlation-id", id), ("x-pad", pad.as_str())];
        timeout(SOON, world.send(version, Method::GET, ALICE, &headers, "")).await.expect("an answer in time")
    };
    // The upstream's limit is unknown yet: the connection's end must not affect other requests.
    let first = padded(Version::H2, 32 << 10).await;
    assert_eq!((first.status, first.code().as_str()), (431, "HEADERS_TOO_LARGE"), "the first of all");
    let bob = world.bearer("bob");
    let mut client = world.client(Version::H1).await;
    let hanging = tokio::spawn(async move {
        let asked = request(Method::GET, BOB, &[("authorization", bob.as_str())], "");
        client.send(asked).await
    });
    for version in BOTH {
        let size = |reply: &Reply| String::from_utf8_lossy(&reply.body).parse::<usize>().expect("a size");
        let bare = size(&padded(version, 0).await);
        let most = usize::try_from(MAX_HEAD).expect("a size") - bare;
        // The upstream's `h2` refuses heads at its own announced limit.
        let below = padded(version, most - 1).await;
        assert_eq!((below.status, size(&below)), (200, bare + most - 1), "{version:?}");
        for bytes in [most + 1, most + 1_000, 40 << 10] {
            let above = padded(version, bytes).await;
            assert_eq!(
                (above.status, above.code().as_str()),
                (431, "HEADERS_TOO_LARGE"),
                "{version:?} {bytes}"
            );
        }
    }
    for (bytes, expected) in [(MAX_HEAD - 40, (200, "")), (MAX_HEAD, (431, "HEADERS_TOO_LARGE"))] {
        let value = "x".repeat(usize::try_from(bytes).expect("a size")).parse().expect("a value");
        let trailers = HeaderMap::from_iter([(HeaderName::from_static("x-sum"), value)]);
        let frames = vec![Frame::data(Bytes::from_static(b"body")), Frame::trailers(trailers)];
        let asked = streamed(Method::POST, ALICE, &alice, frames);
        let mut client = world.client(Version::H2).await;
        let reply = timeout(SOON, client.send(asked)).await.expect("an answer in time");
        let code = if reply.status == 200 { String::new() } else { reply.code() };
        assert_eq!((reply.status, code.as_str()), expected, "trailers of {bytes}");
    }
    assert!(!hanging.is_finished());
    go_on.notify_one();
    let reply = timeout(SOON, hanging).await.expect("an answer in time").expect("no panic");
    assert_eq!((reply.status, connections.load(Ordering::SeqCst)), (200, 1));
}
