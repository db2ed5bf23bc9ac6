//! One client must not cost other clients their answers: slow bodies, slow readers, hoarded permits, tunnels and long
//! answers. Each test runs a well-behaved client beside the bad one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use crate::backend::Answer;
use crate::client::{BOTH, Reply, Version, request};
use crate::frames::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, Frames, HEADERS, RST_STREAM, WINDOW_UPDATE, get_block,
};
use crate::metrics::{scrape, text};
use crate::raw::{Raw, SOON};
use crate::world::{SUPERADMIN, World};

const PATH: &str = "/api/timesheet/v1/x";
const HANGS: &str = "/api/timesheet/v1/hangs";
/// One client's share of a very small upstream.
const SHARE: usize = 8;
/// Grace and window of the minimum rate, with a grace of zero.
const CREDIT: Duration = Duration::from_secs(10);
/// More than twice the credit, so that a slow machine fails no test.
const LONG: Duration = Duration::from_secs(30);

fn head(bearer: &str, length: usize) -> String {
    format!(
        "POST {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: {bearer}\r\ncontent-length: {length}\r\n\r\n"
    )
}

/// The bearer of a subject that the gateway knows already.
async fn known(world: &World, subject: &str) -> String {
    let bearer = world.bearer(subject);
    assert_eq!(get(world, "/api/org/me/companies", &bearer).await.status, 200);
    bearer
}

async fn get(world: &World, path: &str, bearer: &str) -> Reply {
    world.get(path, &[("authorization", bearer)]).await
}

/// Whether the refusal is due to the client's own share.
fn is_over_share(reply: &Reply) {
    assert_eq!((reply.status, reply.code().as_str()), (429, "RATE_LIMITED"), "{reply:?}");
    assert_eq!(reply.json()["error"]["details"]["scope"], "concurrency");
    assert_eq!(reply.header("retry-after"), Some("1"));
}

/// The statuses of the requests to the timesheet module that are counted as forwarded, in the metrics' order.
pub(crate) fn forwarded_statuses(metrics: &str) -> Vec<&str> {
    let series = "platform_gateway_upstream_requests_total{module=\"timesheet\",status=\"";
    metrics.lines().filter_map(|line| line.strip_prefix(series)?.split('"').next()).collect()
}

fn is_over_capacity(reply: &Reply) {
    let reason = reply.json()["error"]["details"]["reason"].clone();
    assert_eq!((reply.status, reason), (503, json!("over_capacity")));
}

/// Waits until the backend has seen this many requests for a path.
async fn arrived(world: &World, path: &str, count: usize) {
    let arrived = async {
        while world.backend.seen(path).len() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, arrived).await.expect("they arrive");
}

/// Requests that get no answer; all have reached the upstream when this returns.
async fn hanging(world: &World, path: &str, bearer: &str, count: usize) -> JoinSet<()> {
    let before = world.backend.seen(path).len();
    let mut hanging = JoinSet::new();
    for _ in 0..count {
        let mut client = world.client(Version::H1).await;
        let asked = request(Method::GET, path, &[("authorization", bearer)], "");
        hanging.spawn(async move { drop(client.open(asked).await) });
    }
    arrived(world, path, before + count).await;
    hanging
}

#[tokio::test]
async fn a_short_body_that_comes_slowly_holds_no_place_at_its_upstream() {
    let world = World::with(&[("PLATFORM_GATEWAY_UPSTREAM_CONCURRENCY", "1")]).await;
    let (alice, bob) = (known(&world, "alice").await, known(&world, "bob").await);
    let whole = "0123456789".repeat(6_553);
    let mut slow = Raw::client(&world).await;
    slow.send(head(&alice, whole.len()) + &whole[..whole.len() / 2]).await;
    let mut frames = Frames::connect(&world, 65_535).await;
    let post = [&[0x83][..], &get_block(PATH, &alice)[1..], &[0x0f, 0x0d, 1, b'4']].concat();
    frames.send(HEADERS, END_HEADERS, 1, &post).await;
    frames.send(DATA, 0, 1, b"hal").await;
    frames.is_alive(&[WINDOW_UPDATE]).await;
    for version in BOTH {
        let reply = world.send(version, Method::GET, PATH, &[("authorization", &bob)], "").await;
        assert_eq!(reply.status, 200, "{version:?}: {reply:?}");
    }
    slow.send(&whole[whole.len() / 2..]).await;
    let answer = slow.head().await;
    assert_eq!(
        (answer.status(), slow.body(&answer).await.contains(&whole)),
        (200, true),
        "the whole body arrives"
    );
    frames.send(DATA, END_STREAM, 1, b"f").await;
    frames.next_of(HEADERS, 1).await;
    assert_eq!(world.backend.seen(PATH).last().map(|seen| seen.body.as_str()), Some("half"));
    world.backend.on_path(HANGS, Answer::Hang);
    let _held = hanging(&world, HANGS, &alice, 1).await;
    is_over_capacity(&get(&world, PATH, &bob).await);
}

#[tokio::test]
async fn a_body_is_taken_in_at_the_limit_and_one_past_it_takes_its_place_first() {
    const MOST: usize = 64 << 10;
    let world = World::with(&[("PLATFORM_GATEWAY_UPSTREAM_CONCURRENCY", "1")]).await;
    let (alice, bob) = (known(&world, "alice").await, known(&world, "bob").await);
    let mut at_the_limit = Raw::client(&world).await;
    at_the_limit.send(head(&alice, MOST) + "begins").await;
    for _ in 0..10 {
        assert_eq!(get(&world, PATH, &bob).await.status, 200);
    }
    let mut past_it = Raw::client(&world).await;
    past_it.send(head(&alice, MOST + 1) + "begins").await;
    let refused = async {
        loop {
            let reply = get(&world, PATH, &bob).await;
            if reply.status != 200 {
                return reply;
            }
        }
    };
    is_over_capacity(&timeout(SOON, refused).await.expect("the only permit is taken"));
}

#[tokio::test]
async fn a_subject_has_its_share_of_an_upstream_and_the_rest_is_for_others() {
    let world = World::with(&[("PLATFORM_GATEWAY_UPSTREAM_CONCURRENCY", "12")]).await;
    world.backend.on_path(HANGS, Answer::Hang);
    let (alice, bob) = (known(&world, "alice").await, known(&world, "bob").await);
    let held = hanging(&world, HANGS, &alice, SHARE).await;
    for version in BOTH {
        let reply = world.send(version, Method::GET, PATH, &[("authorization", &alice)], "").await;
        is_over_share(&reply);
        let reply = world.send(version, Method::GET, PATH, &[("authorization", &bob)], "").await;
        assert_eq!(reply.status, 200, "another subject is not affected");
    }
    drop(held);
    let again = async {
        while get(&world, PATH, &alice).await.status != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, again).await.expect("released permits can be taken again");
}

#[tokio::test]
async fn requests_that_wait_are_of_the_share_too() {
    let world = World::with(&[
        ("PLATFORM_GATEWAY_UPSTREAM_CONCURRENCY", "8"),
        ("PLATFORM_MODULE_DIAL_TIMEOUT", "30s"),
    ])
    .await;
    world.backend.on_path(HANGS, Answer::Hang);
    let (alice, bob, carol) =
        (known(&world, "alice").await, known(&world, "bob").await, known(&world, "carol").await);
    let held = hanging(&world, HANGS, &bob, SHARE).await;
    let mut waiting = JoinSet::new();
    for _ in 0..=SHARE {
        let mut client = world.client(Version::H1).await;
        let asked = request(Method::GET, PATH, &[("authorization", &alice)], "");
        waiting.spawn(async move { client.send(asked).await });
    }
    is_over_share(&waiting.join_next().await.expect("one past the share").expect("an answer"));
    is_over_capacity(&get(&world, PATH, &carol).await);
    drop(held);
    while let Some(reply) = waiting.join_next().await {
        assert_eq!(reply.expect("an answer").status, 200, "the others have their turn");
    }
}

#[tokio::test]
async fn an_address_without_a_subject_has_its_share() {
    const LOGIN: &str = "/realms/platform/hangs";
    let world = World::with(&[
        ("PLATFORM_GATEWAY_UPSTREAM_CONCURRENCY", "12"),
        ("PLATFORM_TRUSTED_PROXIES", "127.0.0.0/8"),
    ])
    .await;
    world.backend.on_path(LOGIN, Answer::Hang);
    let from = |address: &'static str| [("x-forwarded-for", address)];
    let mut held = JoinSet::new();
    for _ in 0..SHARE {
        let mut client = world.client(Version::H1).await;
        let asked = request(Method::GET, LOGIN, &from("203.0.113.1"), "");
        held.spawn(async move { drop(client.open(asked).await) });
    }
    arrived(&world, LOGIN, SHARE).await;
    is_over_share(&world.get("/realms/platform/x", &from("203.0.113.1")).await);
    assert_eq!(world.get("/realms/platform/x", &from("203.0.113.2")).await.status, 200);
}

#[tokio::test]
async fn questions_of_the_edge_have_places_that_no_client_takes() {
    const CAN: &str = "/api/auth/effective-access/summary";
    const INTERNAL: &str = "/internal/authz/effective-access/summary";
    let world = World::with(&[("PLATFORM_GATEWAY_UPSTREAM_CONCURRENCY", "8")]).await;
    let (alice, bob, admin) =
        (known(&world, "alice").await, known(&world, "bob").await, known(&world, "admin").await);
    world.superadmin(true, "ALLOWED");
    world.backend.on_path(INTERNAL, Answer::Hang);
    let mut held = JoinSet::new();
    for _ in 0..SHARE {
        let mut client = world.client(Version::H1).await;
        let asked = request(Method::GET, CAN, &[("authorization", &alice)], "");
        held.spawn(async move { drop(client.open(asked).await) });
    }
    arrived(&world, INTERNAL, SHARE).await;
    let asked = world.backend.seen(SUPERADMIN).len();
    let auth = [("authorization", admin.as_str())];
    let reply = world.post("/api/org/admin/units", &auth, "{}").await;
    assert_eq!((reply.status, world.backend.seen(SUPERADMIN).len()), (200, asked + 1));
    let reply = get(&world, CAN, &bob).await;
    assert_eq!(
        (reply.status, reply.json()["error"]["details"]["reason"].clone()),
        (503, json!("over_capacity"))
    );
}

/// Sends a byte at intervals and reads the gateway's final answer.
async fn drip(
    client: &mut Raw<impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin>,
    piece: &str,
    every: Duration,
) {
    use tokio::io::AsyncWriteExt;
    let mut ticks = interval(every);
    loop {
        ticks.tick().await;
        if client.stream.write_all(piece.as_bytes()).await.is_err() || client.stream.flush().await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn a_body_below_the_least_rate_is_cut_off_and_one_above_it_arrives() {
    const LONG_BODY: usize = 128 << 10;
    let world =
        World::with(&[("PLATFORM_GATEWAY_MIN_RATE_GRACE", "0s"), ("PLATFORM_GATEWAY_MIN_RATE", "1KiB")])
            .await;
    let (alice, bob) = (known(&world, "alice").await, known(&world, "bob").await);
    let mut running = JoinSet::new();
    for (length, name) in [(1_000, "taken in"), (LONG_BODY, "streamed")] {
        let mut slow = Raw::client(&world).await;
        slow.send(head(&alice, length)).await;
        running.spawn(async move {
            let begun = Instant::now();
            let sent = timeout(Duration::from_secs(9), drip(&mut slow, "x", Duration::from_millis(250)));
            assert!(sent.await.is_err(), "{name}: so long it may be slow");
            let answer = timeout(LONG, slow.head_without_limit()).await.expect("it is cut off");
            assert_eq!(answer.status(), 408, "{name}");
            let body: serde_json::Value = serde_json::from_str(&slow.body(&answer).await).expect("JSON");
            let error = &body["error"];
            assert_eq!(
                (&error["code"], &error["message"], &error["details"]),
                (
                    &json!("REQUEST_TIMEOUT"),
                    &json!("The body arrived below the minimum rate."),
                    &json!({"leastBytesPerSecond": 1_024})
                ),
                "{name}"
            );
            assert!(begun.elapsed() >= CREDIT, "{name}: {:?}", begun.elapsed());
        });
    }
    let mut good = Raw::client(&world).await;
    good.send(head(&bob, 13 * 2_048)).await;
    running.spawn(async move {
        let mut ticks = interval(Duration::from_secs(1));
        for _ in 0..13 {
            ticks.tick().await;
            good.send("x".repeat(2_048)).await;
        }
        assert_eq!(good.head().await.status(), 200, "twice the rate, for longer than the other lasted");
    });
    while let Some(ended) = running.join_next().await {
        ended.expect("as it should be");
    }
}

#[tokio::test]
async fn a_stream_in_both_directions_may_be_slower_than_the_least_rate() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let host = listener.local_addr().expect("an address").to_string();
    let world = World::with(&[
        ("PLATFORM_MODULE_HOST_TIMESHEET", &host),
        ("PLATFORM_GATEWAY_MIN_RATE_GRACE", "0s"),
        ("PLATFORM_GATEWAY_MIN_RATE", "1KiB"),
    ])
    .await;
    let bearer = known(&world, "alice").await;
    let mut client = Raw::client(&world).await;
    let head = format!("POST {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: {bearer}\r\n");
    client.send(head + "transfer-encoding: chunked\r\n\r\n1\r\nx\r\n").await;
    let mut upstream = Raw::upstream(&listener).await;
    upstream.head().await;
    upstream.expect("1\r\nx\r\n").await;
    upstream.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await;
    assert_eq!(client.head().await.status(), 200);
    let begun = Instant::now();
    let mut ticks = interval(Duration::from_millis(250));
    while begun.elapsed() < CREDIT * 3 / 2 {
        ticks.tick().await;
        client.send("1\r\nx\r\n").await;
        upstream.expect("1\r\nx\r\n").await;
    }
    client.send("0\r\n\r\n").await;
    upstream.expect("0\r\n\r\n").await;
    upstream.send("4\r\ndone\r\n0\r\n\r\n").await;
    client.expect("4\r\ndone\r\n0\r\n\r\n").await;
}

fn chunks(world: &World, path: &str) -> mpsc::UnboundedSender<Bytes> {
    let (send, receive) = mpsc::unbounded_channel();
    world.backend.on_path(path, Answer::Chunks(Arc::new(Mutex::new(Some(receive)))));
    send
}

#[tokio::test]
async fn an_answer_that_is_read_below_the_least_rate_is_cut_off() {
    const LARGE: &str = "/api/timesheet/v1/large";
    const EVENTS: &str = "/api/timesheet/v1/events";
    let world = World::with(&[("PLATFORM_GATEWAY_MIN_RATE_GRACE", "0s")]).await;
    let bearer = known(&world, "alice").await;
    let begun = Instant::now();
    // More than all buffers on the path together.
    let plain = chunks(&world, LARGE);
    let mut reader = Raw::client(&world).await;
    reader.send(format!("GET {LARGE} HTTP/1.1\r\nhost: localhost\r\nauthorization: {bearer}\r\n\r\n")).await;
    reader.head().await;
    for _ in 0..64 {
        plain.send(Bytes::from(vec![b'x'; 1 << 20])).expect("the backend listens");
    }
    let windows = chunks(&world, LARGE);
    let events = chunks(&world, EVENTS);
    let mut frames = Frames::connect(&world, 0).await;
    frames.get(1, LARGE, &bearer).await;
    frames.next_of(HEADERS, 1).await;
    windows.send(Bytes::from("nobody reads this")).expect("the backend listens");
    frames.get(3, EVENTS, &bearer).await;
    frames.next_of(HEADERS, 3).await;
    frames.send(WINDOW_UPDATE, 0, 3, &1_000_000_u32.to_be_bytes()).await;
    let mut ticks = interval(Duration::from_millis(100));
    let mut reset = None;
    while begun.elapsed() < LONG && reset.is_none() {
        ticks.tick().await;
        events.send(Bytes::from("event")).expect("the other stream goes on");
        let frame = frames.next().await.expect("the connection is open");
        match (frame.kind, frame.stream) {
            (RST_STREAM, 1) => reset = Some(begun.elapsed()),
            (DATA, 3) | (WINDOW_UPDATE, _) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(reset.is_some_and(|after| after >= CREDIT), "{reset:?}");
    timeout(LONG, plain.closed()).await.expect("HTTP/1.1's reader is cut off, too");
    timeout(SOON, windows.closed()).await.expect("the upstream's work is ended");
    world.superadmin(true, "ALLOWED");
    let counted = async {
        let cut_off = |count: usize| {
            format!(
                r#"platform_gateway_answers_cut_off_total{{reason="client_too_slow",service="gateway"}} {count}"#
            )
        };
        loop {
            let reply = scrape(&world).await;
            assert!(!text(&reply).contains("client_stalled"), "that is another reason");
            if text(&reply).contains(&cut_off(2)) {
                return;
            }
        }
    };
    timeout(SOON, counted).await.expect("each is counted");
}

/// Opens streams for complete answers with open client windows, and reads none of them.
async fn unread(world: &World, path: &str, bearer: &str, count: u32) -> Frames {
    let mut frames = Frames::connect(world, 1 << 20).await;
    frames.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 30).to_be_bytes()).await;
    for number in 0..count {
        frames.get(2 * number + 1, path, bearer).await;
    }
    frames
}

#[tokio::test]
async fn a_connection_whose_client_reads_no_answer_is_cut_off_though_each_answer_is_whole() {
    const WHOLE: &str = "/api/timesheet/v1/whole";
    let world = World::with(&[
        ("PLATFORM_GATEWAY_MIN_RATE_GRACE", "0s"),
        ("PLATFORM_GATEWAY_UPSTREAM_CONCURRENCY", "4096"),
    ])
    .await;
    let bearer = known(&world, "alice").await;
    world.backend.on_path(WHOLE, Answer::Json(200, json!("x".repeat(60 << 10))));
    let begun = Instant::now();
    // More than the system buffers for a connection; the control sends less.
    let mut deaf = unread(&world, WHOLE, &bearer, 240).await;
    let mut patient = unread(&world, WHOLE, &bearer, 2).await;
    let seen = || world.backend.seen(WHOLE).len();
    let all_asked = async {
        while seen() < 242 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, all_asked).await.expect("every stream's request goes on");
    world.superadmin(true, "ALLOWED");
    let cut_off = r#"platform_gateway_answers_cut_off_total{reason="client_too_slow",service="gateway"}"#;
    let counted = async {
        while !text(&scrape(&world).await).contains(cut_off) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(LONG, counted).await.expect("it is cut off");
    assert!(begun.elapsed() >= CREDIT, "{:?}", begun.elapsed());
    // Its streams are reset, or the connection has ended.
    let rest = async { while deaf.next().await.is_some_and(|frame| frame.kind != RST_STREAM) {} };
    timeout(SOON, rest).await.expect("what is left is not sent");
    let mut ends = 0;
    while ends < 2 {
        let frame = patient.next().await.expect("the client was not blocked");
        ends += u32::from(frame.kind == DATA && frame.flags & 1 == 1);
    }
}

#[tokio::test]
async fn a_rare_event_is_not_slow() {
    const EVENTS: &str = "/api/timesheet/v1/events";
    let world = World::with(&[("PLATFORM_GATEWAY_MIN_RATE_GRACE", "0s")]).await;
    let bearer = known(&world, "alice").await;
    let mut running = JoinSet::new();
    for version in BOTH {
        let events = chunks(&world, EVENTS);
        let mut client = world.client(version).await;
        let response = client
            .open(request(Method::GET, EVENTS, &[("authorization", &bearer)], ""))
            .await
            .expect("a head");
        running.spawn(async move {
            let mut body = response.into_body();
            let mut ticks = interval(CREDIT + Duration::from_secs(2));
            for _ in 0..2 {
                ticks.tick().await;
                events.send(Bytes::from("event")).expect("the backend listens");
                let frame = timeout(SOON, http_body_util::BodyExt::frame(&mut body)).await.expect("in time");
                assert_eq!(frame.expect("a frame").expect("no error").into_data().expect("data"), "event");
            }
            drop(client);
        });
    }
    while let Some(ended) = running.join_next().await {
        ended.expect("as it should be");
    }
}

/// A module that accepts every WebSocket and answers every other request.
async fn websockets(listener: TcpListener) {
    let mut connections = JoinSet::new();
    loop {
        let mut upstream = Raw::on(listener.accept().await.expect("a connection").0);
        connections.spawn(async move {
            loop {
                if !upstream.head().await.headers.iter().any(|(name, _)| name == "upgrade") {
                    upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
                    continue;
                }
                upstream.send("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n").await;
                return std::future::pending::<()>().await;
            }
        });
    }
}

async fn websocket(
    world: &World,
    bearer: &str,
) -> (u16, Raw<tokio_rustls::client::TlsStream<tokio::net::TcpStream>>) {
    let mut client = Raw::client(world).await;
    client.send(format!("{}connection: upgrade\r\nupgrade: websocket\r\n\r\n", get_head(bearer))).await;
    (client.head().await.status(), client)
}

/// The refusal that a client gets instead of a WebSocket.
async fn no_websocket(world: &World, bearer: &str) -> (u16, String) {
    let mut client = Raw::client(world).await;
    client.send(format!("{}connection: upgrade\r\nupgrade: websocket\r\n\r\n", get_head(bearer))).await;
    let head = client.head().await;
    (head.status(), client.body(&head).await)
}

fn get_head(bearer: &str) -> String {
    format!("GET {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: {bearer}\r\n")
}

#[tokio::test]
async fn tunnels_are_counted_on_their_own() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let mut upstream = JoinSet::new();
    upstream.spawn(websockets(listener));
    let world = World::with(&[
        ("PLATFORM_MODULE_HOST_TIMESHEET", address.as_str()),
        ("PLATFORM_GATEWAY_UPSTREAM_CONCURRENCY", "1"),
        ("PLATFORM_GATEWAY_MAX_TUNNELS", "9"),
    ])
    .await;
    let (alice, bob) = (known(&world, "alice").await, known(&world, "bob").await);
    let mut held = HashMap::new();
    for number in 0..SHARE {
        let (status, tunnel) = websocket(&world, &alice).await;
        assert_eq!(status, 101, "{number}");
        held.insert(number, tunnel);
    }
    let (status, refused) = no_websocket(&world, &alice).await;
    assert_eq!(status, 429, "one past the share");
    assert!(
        refused.contains("as many tunnels open as it may have") && refused.contains(r#""scope":"tunnels""#),
        "{refused}"
    );
    assert_eq!(get(&world, PATH, &alice).await.status, 200, "they take no permits of ordinary requests");
    let (status, last) = websocket(&world, &bob).await;
    assert_eq!(status, 101, "another subject has its own");
    let (status, refused) = no_websocket(&world, &bob).await;
    assert_eq!(status, 503, "one past them all");
    assert!(
        refused.contains("All tunnels of the gateway are in use.")
            && refused.contains(r#""reason":"tunnels_full""#),
        "{refused}"
    );
    let metrics = scrape(&world).await;
    assert_eq!(forwarded_statuses(text(&metrics)), ["101", "200"], "refused tunnels are not forwarded");
    drop((held, last));
    let again = async {
        while websocket(&world, &bob).await.0 != 101 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(SOON, again).await.expect("released permits can be taken again");
}

#[tokio::test]
async fn a_long_answer_leaves_its_place_to_others() {
    const EVENTS: &str = "/api/timesheet/v1/events";
    let world = World::with(&[("PLATFORM_GATEWAY_UPSTREAM_CONCURRENCY", "1")]).await;
    let (alice, bob) = (known(&world, "alice").await, known(&world, "bob").await);
    let events = chunks(&world, EVENTS);
    let mut client = world.client(Version::H1).await;
    // The gateway's timer starts with its first wait for the upstream, possibly before the head has arrived here.
    let begun = Instant::now();
    let response =
        client.open(request(Method::GET, EVENTS, &[("authorization", &alice)], "")).await.expect("a head");
    is_over_capacity(&get(&world, PATH, &bob).await);
    let free = async {
        // Each of these waits for a permit as long as any request does.
        while get(&world, PATH, &bob).await.status != 200 {}
    };
    timeout(LONG, free).await.expect("the permit is free");
    assert!(begun.elapsed() >= Duration::from_secs(10), "{:?}", begun.elapsed());
    events.send(Bytes::from("event")).expect("and the stream goes on");
    let mut body = response.into_body();
    let frame = timeout(SOON, http_body_util::BodyExt::frame(&mut body)).await.expect("in time");
    assert_eq!(frame.expect("a frame").expect("no error").into_data().expect("data"), "event");
}

#[tokio::test]
async fn a_request_that_is_given_up_keeps_no_port_of_the_edge() {
    use tokio::io::AsyncReadExt;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let world = World::with(&[
        ("PLATFORM_MODULE_HOST_TIMESHEET", address.as_str()),
        ("PLATFORM_GATEWAY_POOL_IDLE", "100ms"),
    ])
    .await;
    let bearer = known(&world, "alice").await;
    for given_up in [true, false] {
        let mut client = Raw::client(&world).await;
        client
            .send(format!("GET {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: {bearer}\r\n\r\n"))
            .await;
        let mut upstream = Raw::upstream(&listener).await;
        upstream.head().await;
        if given_up {
            drop(client);
        } else {
            upstream.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
            assert_eq!(client.head().await.status(), 200);
        }
        let end = timeout(SOON, upstream.stream.read(&mut [0])).await.expect("the edge ends it");
        let ended = end.map_err(|error| error.kind());
        // A reset connection leaves nothing behind; one that has served closes cleanly.
        let wanted = if given_up { Err(std::io::ErrorKind::ConnectionReset) } else { Ok(0) };
        assert_eq!(ended, wanted, "{given_up}");
    }
}

/// A body that is streamed, and its beginning.
async fn slow_login(
    world: &World,
    address: &str,
    length: &str,
) -> Raw<tokio_rustls::client::TlsStream<tokio::net::TcpStream>> {
    let mut slow = Raw::client(world).await;
    let head =
        format!("POST {LOGIN} HTTP/1.1\r\nhost: localhost\r\nx-forwarded-for: {address}\r\n{length}\r\n\r\n");
    slow.send(head).await;
    slow
}

const LOGIN: &str = "/realms/platform/protocol/openid-connect/token";
/// One byte more than is buffered before a request takes a permit.
const LONG_FORM: usize = (64 << 10) + 1;

/// A provider with eight permits, and client addresses from a trusted proxy.
async fn provider_of_eight() -> World {
    World::with(&[
        ("PLATFORM_GATEWAY_UPSTREAM_CONCURRENCY", "8"),
        ("PLATFORM_MODULE_DIAL_TIMEOUT", "200ms"),
        ("PLATFORM_TRUSTED_PROXIES", "127.0.0.0/8"),
        ("PLATFORM_GATEWAY_WORKERS", "1"),
    ])
    .await
}

/// Waits until a long body gets no permit.
async fn no_place_for_a_long_body(world: &World) {
    let body = "x".repeat(LONG_FORM);
    let refused = async {
        loop {
            let reply = world.post(LOGIN, &[("x-forwarded-for", "203.0.113.99")], &body).await;
            if reply.status != 200 {
                return reply;
            }
        }
    };
    is_over_capacity(&timeout(SOON, refused).await.expect("slow bodies hold all of their permits"));
}

async fn signs_in(world: &World) {
    for version in BOTH {
        let from = [("x-forwarded-for", "203.0.113.98")];
        let reply = world.send(version, Method::POST, LOGIN, &from, "grant_type=password").await;
        assert_eq!((reply.status, reply.json()["data"]["body"].clone()), (200, json!("grant_type=password")));
        assert_eq!(world.send(version, Method::GET, LOGIN, &from, "").await.status, 200);
    }
}

#[tokio::test]
async fn slow_bodies_from_many_addresses_take_no_place_of_those_who_sign_in() {
    let world = provider_of_eight().await;
    let mut slow = Vec::new();
    for address in 0..4 {
        for number in 0..SHARE {
            let length = if number % 2 == 0 {
                format!("content-length: {LONG_FORM}")
            } else {
                "transfer-encoding: chunked".to_owned()
            };
            let mut body = slow_login(&world, &format!("203.0.113.{address}"), &length).await;
            // Of unknown length: more than is buffered.
            body.send(if number % 2 == 0 {
                "x".to_owned()
            } else {
                format!("{LONG_FORM:x}\r\n{}\r\n", "x".repeat(LONG_FORM))
            })
            .await;
            slow.push(body);
        }
    }
    no_place_for_a_long_body(&world).await;
    signs_in(&world).await;
    drop(slow);
    let again = async {
        let from = [("x-forwarded-for", "203.0.113.98")];
        let body = "x".repeat(LONG_FORM);
        while world.post(LOGIN, &from, &body).await.status != 200 {}
        world.backend.seen(LOGIN).last().map(|seen| seen.body.len())
    };
    assert_eq!(
        timeout(SOON, again).await.expect("a permit is released"),
        Some(LONG_FORM),
        "the whole body arrives"
    );
}

#[tokio::test]
async fn slow_bodies_past_those_that_are_held_take_no_place_of_those_who_sign_in() {
    /// Bodies of one client that a worker holds.
    const HELD: u32 = 256;
    let world = provider_of_eight().await;
    let post = [&[0x83][..], &get_block(LOGIN, "none")[1..], &[0x0f, 0x0d, 1, b'4']].concat();
    let mut slow = Vec::new();
    for _ in 0..2 {
        let mut frames = Frames::connect(&world, 65_535).await;
        for stream in 0..HELD / 2 + 16 {
            frames.send(HEADERS, END_HEADERS, 2 * stream + 1, &post).await;
        }
        frames.is_alive(&[HEADERS, DATA, RST_STREAM, WINDOW_UPDATE]).await;
        slow.push(frames);
    }
    no_place_for_a_long_body(&world).await;
    signs_in(&world).await;
}

#[tokio::test]
async fn heads_whose_bodies_do_not_come_are_refused_past_a_mebibyte_of_a_connection() {
    const HEADER: usize = 40_000;
    const REFUSED_STREAM: &[u8] = &[0, 0, 0, 7];
    let world = World::with(&[("PLATFORM_GATEWAY_MIN_RATE_GRACE", "60s")]).await;
    let bearer = known(&world, "alice").await;
    let mut post = [&[0x83][..], &get_block(PATH, &bearer)[1..]].concat();
    let counted = {
        post.extend_from_slice(&[0x00, 1, b'x']);
        crate::frames::append_length(&mut post, HEADER);
        post.extend(std::iter::repeat_n(b'y', HEADER));
        [("authorization", bearer.len()), ("x", HEADER)]
            .iter()
            .map(|(name, value)| name.len() + value + 32)
            .sum::<usize>()
    };
    let fitting = u32::try_from((1 << 20) / counted).expect("a count");
    let mut frames = Frames::connect(&world, 65_535).await;
    let open = async |frames: &mut Frames, stream: u32| {
        let mut parts = post.chunks(16_000).peekable();
        let mut kind = HEADERS;
        while let Some(part) = parts.next() {
            let flags = if parts.peek().is_none() { END_HEADERS } else { 0 };
            frames.send(std::mem::replace(&mut kind, CONTINUATION), flags, stream, part).await;
        }
    };
    for number in 0..fitting {
        open(&mut frames, 2 * number + 1).await;
    }
    frames.is_alive(&[WINDOW_UPDATE]).await;
    let refused = 2 * fitting + 1;
    open(&mut frames, refused).await;
    assert_eq!(frames.next_of(RST_STREAM, refused).await.payload, REFUSED_STREAM);
    frames.get(refused + 2, PATH, &bearer).await;
    assert_eq!(frames.next_of(HEADERS, refused + 2).await.payload[0], 0x88, "one without a body is served");
    frames.send(DATA, END_STREAM, 1, b"whole").await;
    assert_eq!(frames.next_of(HEADERS, 1).await.payload[0], 0x88, "those that fit are served");
    frames.next_of(DATA, 1).await;
    open(&mut frames, refused + 4).await;
    frames.send(DATA, END_STREAM, refused + 4, b"whole").await;
    assert_eq!(frames.next_of(HEADERS, refused + 4).await.payload[0], 0x88, "and leave room for others");
}
