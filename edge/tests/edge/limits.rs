//! Connections and handshakes at their limits and one past them: the one past the limit waits, no request is dropped,
//! and a counter records the wait. Silent and idle clients do not keep others out.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::backend::Answer;
use crate::client::{BOTH, Client, Version, request};
use crate::frames::Frames;
use crate::raw::{Raw, SOON};
use crate::world::World;

/// Long enough for a handshake that does not wait.
const PATIENCE: Duration = Duration::from_millis(300);
/// Longer than the time for which a silent client is safe from eviction.
const LONG: Duration = Duration::from_millis(1_500);

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
    timeout(SOON, waiting).await.expect("it is served once there is a permit");
}

#[tokio::test]
async fn one_handshake_too_many_waits_until_another_has_ended() {
    // One worker accepts connections in order; several may overtake each other.
    let limits = [("PLATFORM_GATEWAY_MAX_HANDSHAKES", "2"), ("PLATFORM_GATEWAY_WORKERS", "1")];
    let world = World::with(&limits).await;
    let bearer = world.bearer("admin");
    let mut known = alive(&world).await;
    let unfinished = greeted(&world).await;
    drop(alive(&world).await);
    assert_eq!(waits(&world, &mut known, &bearer, "handshakes").await, 0, "at the limit no connection waits");
    let more = greeted(&world).await;
    let mut waiting = Box::pin(alive(&world));
    assert!(timeout(PATIENCE, waiting.as_mut()).await.is_err(), "it waits for two that never end");
    assert!(waits(&world, &mut known, &bearer, "handshakes").await >= 1);
    drop((unfinished, more));
    timeout(SOON, waiting).await.expect("it is served once they have left");
}

#[tokio::test]
async fn clients_that_say_nothing_or_not_all_of_hello_take_no_handshake() {
    let limits = [("PLATFORM_GATEWAY_MAX_HANDSHAKES", "2"), ("PLATFORM_GATEWAY_WORKERS", "1")];
    let world = World::with(&limits).await;
    let bearer = world.bearer("admin");
    let mut known = alive(&world).await;
    let hello = hello();
    let (all_but_one, last) = hello.split_at(hello.len() - 1);
    let mut silent = Vec::new();
    for said in [0, 1, 5, 100, all_but_one.len()] {
        for _ in 0..20 {
            let mut stream = connected(&world).await;
            stream.write_all(&all_but_one[..said]).await.expect("written");
            silent.push(stream);
        }
    }
    timeout(SOON, alive(&world)).await.expect("none of the hundred takes a permit");
    assert_eq!(waits(&world, &mut known, &bearer, "handshakes").await, 0);
    // With its last byte a ClientHello takes a permit.
    for stream in silent.iter_mut().rev().take(2) {
        stream.write_all(last).await.expect("written");
        answered(stream).await;
    }
    let mut waiting = Box::pin(alive(&world));
    assert!(timeout(PATIENCE, waiting.as_mut()).await.is_err(), "two with a complete ClientHello take them");
    drop(silent);
    timeout(SOON, waiting).await.expect("it is served once they have left");
}

#[tokio::test]
async fn a_handshake_whose_client_has_fallen_silent_makes_room_for_one_that_waits() {
    let limits = [("PLATFORM_GATEWAY_MAX_HANDSHAKES", "3"), ("PLATFORM_GATEWAY_WORKERS", "1")];
    let world = World::with(&limits).await;
    let bearer = world.bearer("admin");
    let mut known = alive(&world).await;
    // An address's first handshake has its own permit.
    let _first = greeted(&world).await;
    let (mut oldest, mut other) = (greeted(&world).await, greeted(&world).await);
    assert!(timeout(LONG, ended(&mut oldest)).await.is_err(), "it stays open while no connection waits");
    // A handshake may take ten seconds, counted from the ClientHello.
    timeout(Duration::from_secs(4), alive(&world)).await.expect("a fourth one is served");
    timeout(SOON, ended(&mut oldest)).await.expect("the oldest has made room");
    assert!(timeout(PATIENCE, ended(&mut other)).await.is_err(), "one was enough");
    assert_eq!(closed(&world, &mut known, &bearer, "evicted").await, 1);
}

#[tokio::test]
async fn one_address_has_a_share_of_the_handshakes() {
    // Of 32 permits an address has 8.
    let limits = [("PLATFORM_GATEWAY_MAX_HANDSHAKES", "32"), ("PLATFORM_GATEWAY_WORKERS", "1")];
    let world = World::with(&limits).await;
    let mut hoard = Vec::new();
    for _ in 0..8 {
        hoard.push(greeted(&world).await);
    }
    let mut waiting = Box::pin(alive(&world));
    assert!(timeout(PATIENCE, waiting.as_mut()).await.is_err(), "a ninth of the same address waits");
    let mut other = from_elsewhere(world.tls).await;
    other.write_all(&hello()).await.expect("written");
    answered(&mut other).await;
    hoard.pop();
    timeout(SOON, waiting).await.expect("it is served once one of its own has left");
}

#[tokio::test]
async fn handshakes_hoarded_from_several_addresses_leave_places_for_the_first_of_another() {
    let limits = [("PLATFORM_GATEWAY_MAX_HANDSHAKES", "16"), ("PLATFORM_GATEWAY_WORKERS", "1")];
    let world = World::with(&limits).await;
    let bearer = world.bearer("admin");
    let mut known = alive(&world).await;
    let mut hoard = Vec::new();
    // The first handshake of each address has its own permits; the others share eight, and wait there.
    for address in 2..6 {
        for _ in 0..8 {
            let mut stream = from(&format!("127.0.0.{address}:0"), world.tls).await;
            stream.write_all(&hello()).await.expect("written");
            hoard.push(stream);
        }
    }
    let all_have_come = async { while waits(&world, &mut known, &bearer, "handshakes").await < 20 {} };
    timeout(SOON, all_have_come).await.expect("four firsts and eight others have a permit");
    let mut late = from("127.0.0.2:0", world.tls).await;
    late.write_all(&hello()).await.expect("written");
    assert!(timeout(PATIENCE, late.read(&mut [0])).await.is_err(), "the common permits are taken");
    timeout(PATIENCE, alive(&world)).await.expect("another address does not wait");
}

#[tokio::test]
async fn a_hello_that_does_not_end_is_refused_with_its_seventeenth_kibibyte() {
    let world = World::start().await;
    // One message of just under 64 KiB, in records of 1 KiB.
    let record = |first: bool| {
        let mut payload = vec![0; 1_024];
        if first {
            payload[..4].copy_from_slice(&[1, 0, 0xff, 0xff]);
        }
        [&[0x16, 3, 1, 4, 0][..], &payload].concat()
    };
    let mut stream = connected(&world).await;
    let mut sent = 0;
    let closed = async {
        loop {
            if stream.write_all(&record(sent == 0)).await.is_err() {
                return;
            }
            sent += 1;
            if timeout(Duration::from_millis(50), stream.read(&mut [0])).await.is_ok() {
                return;
            }
        }
    };
    timeout(SOON, closed).await.expect("the edge closes");
    assert!((15..=17).contains(&sent), "{sent} KiB");
}

#[tokio::test]
async fn a_hello_that_comes_in_pieces_is_a_hello() {
    let world = World::start().await;
    let mut stream = connected(&world).await;
    for piece in hello().chunks(100) {
        stream.write_all(piece).await.expect("written");
        tokio::task::yield_now().await;
    }
    answered(&mut stream).await;
}

#[tokio::test]
async fn past_the_limit_of_connections_those_that_say_nothing_make_room_first() {
    for entrance in [|world: &World| world.tls, |world: &World| world.plain] {
        let world = World::with(&[("PLATFORM_GATEWAY_MAX_CONNECTIONS", "3")]).await;
        let bearer = world.bearer("admin");
        let mut first = alive(&world).await;
        let mut oldest = TcpStream::connect(entrance(&world)).await.expect("a connection");
        // It is accepted before the next one.
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut younger = TcpStream::connect(entrance(&world)).await.expect("a connection");
        let mut second = timeout(SOON, alive(&world)).await.expect("one has made room, long before its time");
        assert_eq!(timeout(SOON, oldest.read(&mut [0])).await.expect("closed").ok(), Some(0), "the oldest");
        assert!(timeout(PATIENCE, younger.read(&mut [0])).await.is_err(), "one is enough");
        assert_eq!(closed(&world, &mut first, &bearer, "evicted").await, 1);
        let _third = timeout(SOON, alive(&world)).await.expect("and the other");
        assert_eq!(closed(&world, &mut second, &bearer, "evicted").await, 2);
    }
}

#[tokio::test]
async fn past_the_limit_of_connections_one_whose_head_does_not_end_makes_room() {
    // Its timeout is longer than the test.
    let limits = [("PLATFORM_GATEWAY_MAX_CONNECTIONS", "1"), ("PLATFORM_GATEWAY_HEADER_TIMEOUT", "60s")];
    let world = World::with(&limits).await;
    let mut http1 = Raw::client(&world).await;
    http1.send("GET /healthz HTTP/1.1\r\nhost: local").await;
    drop(timeout(SOON, alive(&world)).await.expect("half a head over HTTP/1.1 makes room"));
    let mut http2 = timeout(SOON, Frames::connect(&world, 65_535)).await.expect("a place");
    // HEADERS without END_HEADERS.
    http2.send_raw(b"\0\0\x40\x01\x05\0\0\0\x01\x82").await;
    timeout(SOON, alive(&world)).await.expect("and over HTTP/2");
}

#[tokio::test]
async fn past_the_limit_of_connections_those_without_a_request_make_room_and_no_others() {
    const HANGS: &str = "/api/timesheet/v1/hangs";
    for version in BOTH {
        let world = World::with(&[
            ("PLATFORM_GATEWAY_MAX_CONNECTIONS", "2"),
            ("PLATFORM_MODULE_RESPONSE_HEADER_TIMEOUT", "60s"),
        ])
        .await;
        world.backend.on_path(HANGS, Answer::Hang);
        let bearer = world.bearer("alice");
        let hang = async |mut client: Client, hanging: &mut JoinSet<()>| {
            let seen = world.backend.seen(HANGS).len();
            let asked = request(Method::GET, HANGS, &[("authorization", &bearer)], "");
            hanging.spawn(async move { drop(client.open(asked).await) });
            while world.backend.seen(HANGS).len() == seen {
                tokio::task::yield_now().await;
            }
        };
        let mut busy = JoinSet::new();
        hang(world.client(version).await, &mut busy).await;
        let mut idle = served(&world, version).await;
        let next = timeout(SOON, served(&world, version)).await.expect("the idle one makes room");
        let asked = request(Method::GET, "/healthz", &[], "");
        assert!(timeout(SOON, idle.open(asked)).await.expect("closed").is_err(), "{version:?}");
        hang(next, &mut busy).await;
        let mut waiting = Box::pin(served(&world, version));
        assert!(timeout(2 * LONG, waiting.as_mut()).await.is_err(), "a connection with a request stays");
        assert!(busy.try_join_next().is_none(), "{version:?}: both are under way");
        busy.abort_all();
        timeout(SOON, waiting).await.expect("it is served once there is a permit");
    }
}

#[tokio::test]
async fn one_connection_too_many_of_an_address_is_closed_at_once_and_another_address_is_served() {
    let world = World::with(&[("PLATFORM_GATEWAY_MAX_CONNECTIONS_PER_ADDRESS", "2")]).await;
    let bearer = world.bearer("admin");
    let mut first = alive(&world).await;
    let second = alive(&world).await;
    assert_eq!(closed(&world, &mut first, &bearer, "address_limit").await, 0, "at the limit");
    for address in [world.tls, world.plain] {
        let mut third = TcpStream::connect(address).await.expect("a connection");
        assert_eq!(timeout(SOON, third.read(&mut [0])).await.expect("closed").ok(), Some(0));
    }
    assert_eq!(closed(&world, &mut first, &bearer, "address_limit").await, 2);
    let mut other = from_elsewhere(world.plain).await;
    other.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("written");
    assert!(timeout(SOON, other.read(&mut [0])).await.expect("answered").is_ok_and(|length| length == 1));
    drop(second);
    let served = async {
        // The gateway sees the end of the second a moment later.
        while crate::client::try_tls(world.tls, &world.root, Version::H1).await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, served).await.expect("there is a permit again");
}

#[tokio::test]
async fn connections_of_a_trusted_proxy_are_not_counted_for_its_address() {
    let limits =
        [("PLATFORM_GATEWAY_MAX_CONNECTIONS_PER_ADDRESS", "1"), ("PLATFORM_TRUSTED_PROXIES", "127.0.0.1")];
    let world = World::with(&limits).await;
    let first = alive(&world).await;
    drop((alive(&world).await, first));
}

/// A complete `ClientHello`.
fn hello() -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("versions");
    let config = builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
    let name = "localhost".try_into().expect("a name");
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).expect("a client");
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).expect("written");
    bytes
}

/// The gateway's first byte, which shows that a handshake is running.
async fn answered(stream: &mut TcpStream) {
    let mut first = [0];
    timeout(SOON, stream.read_exact(&mut first)).await.expect("in time").expect("a byte");
    assert_eq!(first, [0x16], "a handshake");
}

/// Resolves when the gateway has closed the connection.
async fn ended(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset closes it as well.
    let _closed = stream.read_to_end(&mut rest).await;
}

/// A connection whose handshake never finishes.
async fn greeted(world: &World) -> TcpStream {
    let mut stream = connected(world).await;
    stream.write_all(&hello()).await.expect("written");
    answered(&mut stream).await;
    stream
}

async fn connected(world: &World) -> TcpStream {
    TcpStream::connect(world.tls).await.expect("a connection")
}

/// A connection of another client address.
async fn from_elsewhere(address: SocketAddr) -> TcpStream {
    from("127.0.0.2:0", address).await
}

async fn from(client: &str, address: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(client.parse().expect("an address")).expect("bound");
    socket.connect(address).await.expect("a connection")
}

/// A connection that has served a request.
async fn alive(world: &World) -> Client {
    served(world, Version::H1).await
}

async fn served(world: &World, version: Version) -> Client {
    let mut client = world.client(version).await;
    let reply = client.send(request(Method::GET, "/healthz", &[], "")).await;
    assert_eq!(reply.status, 200);
    client
}

/// How many connections have waited at this limit, read over an already open connection.
async fn waits(world: &World, client: &mut Client, bearer: &str, limit: &str) -> u64 {
    counted(world, client, bearer, "platform_gateway_accept_waits_total{", limit).await
}

/// How many connections were closed for this reason.
pub(crate) async fn closed(world: &World, client: &mut Client, bearer: &str, reason: &str) -> u64 {
    counted(world, client, bearer, "platform_gateway_connections_closed_total{", reason).await
}

async fn counted(world: &World, client: &mut Client, bearer: &str, family: &str, label: &str) -> u64 {
    world.superadmin(true, "ALLOWED");
    let route = request(Method::GET, "/api/platform/metrics", &[("authorization", bearer)], "");
    let reply = client.send(route).await;
    let text = std::str::from_utf8(&reply.body).expect("text");
    let is_it = |line: &&str| line.starts_with(family) && line.contains(&format!("\"{label}\""));
    text.lines()
        .find(is_it)
        .map_or(0, |line| line.rsplit(' ').next().and_then(|value| value.parse().ok()).expect("a number"))
}
