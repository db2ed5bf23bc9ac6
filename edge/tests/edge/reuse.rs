//! An upstream connection is reused only after an exchange that completed on both sides: an incomplete exchange closes
//! its connection, and the next user is answered over a new one.

use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::Version;
use crate::raw::{Raw, SOON};
use crate::world::World;

const ALICE: &str = "/api/timesheet/v1/alice";
const BOB: &str = "/api/timesheet/v1/bob";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// The course of the first exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum First {
    Whole,
    WholeWithTrailers,
    UpgradeRefused,
    /// The upstream answers before it has the whole body, which it gets afterwards or never.
    EarlyAnswer,
    ClientLeavesInItsBody,
    ClientLeavesInTheAnswer,
    Closes,
    OldVersion,
    NoLength,
    BadChunk,
    TrailersCut,
    LengthOnNoContent,
    Switched,
    UnaskedSwitch,
}

const FIRSTS: [First; 14] = [
    First::Whole,
    First::WholeWithTrailers,
    First::UpgradeRefused,
    First::EarlyAnswer,
    First::ClientLeavesInItsBody,
    First::ClientLeavesInTheAnswer,
    First::Closes,
    First::OldVersion,
    First::NoLength,
    First::BadChunk,
    First::TrailersCut,
    First::LengthOnNoContent,
    First::Switched,
    First::UnaskedSwitch,
];

impl First {
    const fn is_whole(self) -> bool {
        matches!(self, Self::Whole | Self::WholeWithTrailers | Self::UpgradeRefused)
    }

    /// Alice's expected result.
    const fn status(self) -> u16 {
        match self {
            Self::LengthOnNoContent => 204,
            Self::Switched => 101,
            Self::UnaskedSwitch => 503,
            Self::Whole
            | Self::WholeWithTrailers
            | Self::UpgradeRefused
            | Self::EarlyAnswer
            | Self::ClientLeavesInItsBody
            | Self::ClientLeavesInTheAnswer
            | Self::Closes
            | Self::OldVersion
            | Self::NoLength
            | Self::BadChunk
            | Self::TrailersCut => 200,
        }
    }

    /// Alice's request, except the bearer.
    const fn asks(self) -> (&'static str, &'static str) {
        match self {
            Self::EarlyAnswer | Self::ClientLeavesInItsBody => {
                ("POST", "transfer-encoding: chunked\r\n\r\n5\r\nhalf.\r\n")
            }
            Self::Switched | Self::UpgradeRefused => (
                "GET",
                "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            ),
            Self::Whole
            | Self::WholeWithTrailers
            | Self::ClientLeavesInTheAnswer
            | Self::Closes
            | Self::OldVersion
            | Self::NoLength
            | Self::BadChunk
            | Self::TrailersCut
            | Self::LengthOnNoContent
            | Self::UnaskedSwitch => ("GET", "\r\n"),
        }
    }

    /// The upstream's answer. It keeps a connection open even if that must not be reused.
    const fn answer(self) -> &'static str {
        match self {
            Self::Whole | Self::UpgradeRefused | Self::EarlyAnswer => OK,
            Self::WholeWithTrailers => {
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n"
            }
            Self::ClientLeavesInItsBody => "",
            Self::ClientLeavesInTheAnswer => "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok",
            Self::Closes => "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
            Self::OldVersion => "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
            Self::NoLength => "HTTP/1.1 200 OK\r\n\r\nok",
            Self::BadChunk => "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nokX",
            Self::TrailersCut => "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-sum",
            Self::LengthOnNoContent => "HTTP/1.1 204 No Content\r\ncontent-length: 9\r\n\r\n",
            Self::Switched | Self::UnaskedSwitch => {
                "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"
            }
        }
    }
}

/// Requests in order of arrival: connection and path.
type Seen = UnboundedSender<(usize, String)>;

/// The very first request gets the first answer; every other gets its own path.
async fn serve(listener: TcpListener, first: First, seen: Seen) {
    let mut connections = JoinSet::new();
    for number in 1.. {
        let (stream, _) = listener.accept().await.expect("a connection");
        let seen = seen.clone();
        connections.spawn(async move {
            let mut upstream = Raw::on(stream);
            if number == 1 {
                upstream.head().await;
                seen.send((number, ALICE.to_owned())).expect("the test listens");
                upstream.send(first.answer()).await;
            }
            echo(upstream, number, &seen).await;
        });
    }
}

async fn echo(mut upstream: Raw<TcpStream>, number: usize, seen: &Seen) {
    let mut read = Vec::new();
    while let Ok(1..) = upstream.stream.read_buf(&mut read).await {
        // Looks only for heads: the rest of alice's body may precede one.
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some(at) = text.find("POST ").filter(|_| text.contains("\r\n\r\n{}")) {
            let path = text[at..].split(' ').nth(1).expect("a path").to_owned();
            seen.send((number, path.clone())).expect("the test listens");
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}", path.len());
            upstream.stream.write_all(answer.as_bytes()).await.expect("an open connection");
            read.clear();
        }
    }
}

/// Alice's exchange, as far as it goes.
async fn alice(world: &World, first: First, seen: &mut UnboundedReceiver<(usize, String)>) {
    let bearer = world.bearer("alice");
    let (method, rest) = first.asks();
    let mut client = Raw::client(world).await;
    client.send(format!("{method} {ALICE} HTTP/1.1\r\nhost: a\r\nauthorization: {bearer}\r\n{rest}")).await;
    let came = timeout(SOON, seen.recv()).await.expect("in time").expect("a request");
    assert_eq!(came, (1, ALICE.to_owned()), "{first:?}");
    if first == First::ClientLeavesInItsBody {
        return;
    }
    let head = client.head().await;
    assert_eq!(head.status(), first.status(), "{first:?}");
    if first.is_whole() {
        // To the end of the answer, which may be chunked.
        client
            .expect(if head.header("content-length").is_some() {
                "ok"
            } else {
                "2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n"
            })
            .await;
    }
    if first == First::EarlyAnswer {
        client.expect("ok").await;
        client.send("5\r\nrest.\r\n0\r\n\r\n").await;
    }
}

#[tokio::test]
async fn an_exchange_that_ends_halfway_takes_its_connection_with_it() {
    let mut wrong = Vec::new();
    for first in FIRSTS {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (tell, mut seen) = unbounded_channel();
        let mut upstream = JoinSet::new();
        upstream.spawn(serve(listener, first, tell));
        let world =
            World::with(&[("PLATFORM_MODULE_HOST_TIMESHEET", &address), ("PLATFORM_GATEWAY_WORKERS", "1")])
                .await;
        alice(&world, first, &mut seen).await;
        let bearer = world.bearer("bob");
        let headers = [("authorization", bearer.as_str())];
        let asked = world.send(Version::H1, Method::POST, BOB, &headers, "{}");
        let reply = timeout(SOON, asked).await.expect("in time");
        let came = timeout(SOON, seen.recv()).await.expect("in time").expect("a request");
        let connection = if first.is_whole() { 1 } else { 2 };
        let got = (reply.status, String::from_utf8_lossy(&reply.body).into_owned(), came);
        if got != (200, BOB.to_owned(), (connection, BOB.to_owned())) {
            wrong.push(format!("{first:?}: {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "the second user got\n{}", wrong.join("\n"));
}
