//! Bytes that an upstream sends beyond an answer, or on an idle connection, never become another request's answer: the
//! connection is dropped, and the next user is answered over a new one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::{Reply, Version};
use crate::raw::SOON;
use crate::tls_upstream::{Authority, Entrance, SCHEMES, Scheme, Wire};
use crate::world::World;

const ALICE: &str = "/api/timesheet/v1/alice";
const BOB: &str = "/api/timesheet/v1/bob";
/// A complete answer that belongs to no request.
const STRAY: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstray";

/// The upstream's excess beyond the first answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Excess {
    Nothing,
    /// A key update, which TLS 1.3 allows at any time.
    NewKeys,
    AfterLength,
    AfterChunks,
    OnHead,
    OnNoContent,
    OnNotModified,
    Unasked,
    HalfRecord,
    HalfRecordHeader,
    Goodbye,
    End,
    Reset,
}

impl Excess {
    const ALL: [Self; 13] = [
        Self::Nothing,
        Self::NewKeys,
        Self::AfterLength,
        Self::AfterChunks,
        Self::OnHead,
        Self::OnNoContent,
        Self::OnNotModified,
        Self::Unasked,
        Self::HalfRecord,
        Self::HalfRecordHeader,
        Self::Goodbye,
        Self::End,
        Self::Reset,
    ];

    fn exists(self, scheme: Scheme, when: When) -> bool {
        let has_it = match scheme {
            Scheme::Plain => !matches!(self, Self::NewKeys | Self::Goodbye),
            Scheme::Tls12 => self != Self::NewKeys,
            Scheme::Tls13 => true,
        };
        // A reset may overtake an answer.
        has_it && (self != Self::Reset || when == When::WhileIdle)
    }

    /// Whether the connection may be reused.
    const fn is_harmless(self) -> bool {
        matches!(self, Self::Nothing | Self::NewKeys)
    }

    const fn method(self) -> Method {
        if matches!(self, Self::OnHead) { Method::HEAD } else { Method::GET }
    }

    const fn answer(self) -> &'static [u8] {
        match self {
            Self::AfterChunks => b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
            Self::OnHead => b"HTTP/1.1 200 OK\r\ncontent-length: 44\r\n\r\n",
            Self::OnNoContent => b"HTTP/1.1 204 No Content\r\n\r\n",
            Self::OnNotModified => b"HTTP/1.1 304 Not Modified\r\ncontent-length: 44\r\n\r\n",
            Self::Nothing
            | Self::NewKeys
            | Self::AfterLength
            | Self::Unasked
            | Self::HalfRecord
            | Self::HalfRecordHeader
            | Self::Goodbye
            | Self::End
            | Self::Reset => b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        }
    }

    /// The bytes sent beyond the answer, and the bytes held back of it.
    fn bytes(self, wire: &mut Wire) -> (Vec<u8>, Vec<u8>) {
        match self {
            Self::Nothing | Self::End | Self::Reset => (Vec::new(), Vec::new()),
            Self::NewKeys => (wire.new_keys(), Vec::new()),
            Self::Goodbye => (wire.goodbye(), Vec::new()),
            Self::HalfRecord => halves(wire.seal(STRAY), 9),
            Self::HalfRecordHeader => halves(wire.seal(STRAY), 3),
            Self::AfterLength
            | Self::AfterChunks
            | Self::OnHead
            | Self::OnNoContent
            | Self::OnNotModified
            | Self::Unasked => (wire.seal(STRAY), Vec::new()),
        }
    }
}

fn halves(mut sealed: Vec<u8>, at: usize) -> (Vec<u8>, Vec<u8>) {
    let kept = sealed.split_off(at);
    (sealed, kept)
}

/// When the excess is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// In one write with the end of the answer.
    WithTheAnswer,
    /// After the answer has reached its user.
    WhileIdle,
}

/// Signals between the test and the upstream.
#[derive(Default)]
struct Told {
    connections: AtomicUsize,
    answered: Notify,
    done: Notify,
}

/// The upstream: the first request's answer has the excess; every other request is answered with its own path.
async fn serve(listener: TcpListener, entrance: Entrance, excess: Excess, when: When, told: Arc<Told>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let first = told.connections.fetch_add(1, Ordering::SeqCst) == 0;
        let (entrance, told) = (entrance.clone(), Arc::clone(&told));
        connections.spawn(async move {
            let Ok(wire) = entrance.accept(stream).await else { return };
            let misbehaved =
                if first { misbehave(wire, excess, when, &told).await } else { Some((wire, Vec::new())) };
            let Some((mut wire, mut kept)) = misbehaved else { return };
            while let Some((_, path)) = wire.request().await {
                let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}", path.len());
                let rest = std::mem::take(&mut kept);
                let sealed = wire.seal(answer.as_bytes());
                if !wire.write(&[rest, sealed].concat()).await {
                    return;
                }
            }
        });
    }
}

/// The first answer and its excess. Returns the connection and the bytes held back, unless the connection is over.
async fn misbehave(mut wire: Wire, excess: Excess, when: When, told: &Told) -> Option<(Wire, Vec<u8>)> {
    wire.request().await?;
    let answer = wire.seal(excess.answer());
    let (more, kept) = excess.bytes(&mut wire);
    if when == When::WithTheAnswer {
        assert!(wire.write(&[answer, more].concat()).await, "an open connection");
    } else {
        assert!(wire.write(&answer).await, "an open connection");
        told.answered.notified().await;
        assert!(wire.write(&more).await, "an idle connection is open");
    }
    if excess == Excess::End {
        wire.tcp().shutdown().await.expect("ended");
    }
    if excess == Excess::Reset {
        wire.tcp().set_zero_linger().expect("a reset");
        drop(wire);
        told.done.notify_one();
        return None;
    }
    told.done.notify_one();
    Some((wire, kept))
}

struct Scene {
    world: World,
    told: Arc<Told>,
    _authority: Authority,
    _upstream: JoinSet<()>,
}

impl Scene {
    async fn set(scheme: Scheme, excess: Excess, when: When) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let authority = Authority::new();
        let told = Arc::new(Told::default());
        let mut upstream = JoinSet::new();
        let entrance = Entrance::of(scheme, &authority);
        upstream.spawn(serve(listener, entrance, excess, when, Arc::clone(&told)));
        let host = match scheme {
            Scheme::Plain => format!("127.0.0.1:{port}"),
            Scheme::Tls12 | Scheme::Tls13 => format!("https://localhost:{port}"),
        };
        // One worker, so that both users share a pool.
        let world = World::with(&[
            ("PLATFORM_MODULE_HOST_TIMESHEET", &host),
            ("PLATFORM_GATEWAY_UPSTREAM_CA", &authority.file()),
            ("PLATFORM_GATEWAY_WORKERS", "1"),
        ])
        .await;
        Self { world, told, _authority: authority, _upstream: upstream }
    }

    async fn ask(&self, user: &str, method: Method, path: &str) -> Reply {
        let bearer = self.world.bearer(user);
        let body = if method == Method::POST { "{}" } else { "" };
        let headers = [("authorization", bearer.as_str())];
        let asked = self.world.send(Version::H1, method, path, &headers, body);
        timeout(SOON, asked).await.expect("an answer in time")
    }

    fn connections(&self) -> usize {
        self.told.connections.load(Ordering::SeqCst)
    }
}

/// The second user's answer, and its connection.
async fn second_user(scheme: Scheme, excess: Excess, when: When) -> (u16, String, usize) {
    let scene = Scene::set(scheme, excess, when).await;
    let first = scene.ask("alice", excess.method(), ALICE).await;
    assert!([200, 204, 304].contains(&first.status), "{scheme:?} {excess:?} {when:?}: {first:?}");
    scene.told.answered.notify_one();
    timeout(SOON, scene.told.done.notified()).await.expect("the upstream in time");
    // A POST is never retried, so a bad connection must not be chosen for it.
    let reply = scene.ask("bob", Method::POST, BOB).await;
    let body = String::from_utf8_lossy(&reply.body).into_owned();
    (reply.status, body, scene.connections())
}

#[tokio::test]
async fn what_an_upstream_sends_beyond_an_answer_is_nobody_elses_answer() {
    let mut wrong = Vec::new();
    for scheme in SCHEMES {
        for when in [When::WithTheAnswer, When::WhileIdle] {
            for excess in Excess::ALL.into_iter().filter(|excess| excess.exists(scheme, when)) {
                let seen = second_user(scheme, excess, when).await;
                let connections = if excess.is_harmless() { 1 } else { 2 };
                if seen != (200, BOB.to_owned(), connections) {
                    wrong.push(format!("{scheme:?} {excess:?} {when:?}: {seen:?}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "the second user got\n{}", wrong.join("\n"));
}

#[tokio::test]
async fn an_idle_connection_on_which_something_came_is_closed_without_a_further_request() {
    for scheme in SCHEMES {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let authority = Authority::new();
        let entrance = Entrance::of(scheme, &authority);
        let prefix = if scheme == Scheme::Plain { "" } else { "https://" };
        let world = World::with(&[
            ("PLATFORM_MODULE_HOST_TIMESHEET", &format!("{prefix}localhost:{port}")),
            ("PLATFORM_GATEWAY_UPSTREAM_CA", &authority.file()),
        ])
        .await;
        let bearer = world.bearer("alice");
        let upstream = async {
            let (stream, _) = listener.accept().await.expect("a connection");
            let mut wire = entrance.accept(stream).await.expect("a handshake");
            wire.request().await.expect("a request");
            let answer = wire.seal(Excess::Nothing.answer());
            assert!(wire.write(&answer).await, "an open connection");
            wire
        };
        let headers = [("authorization", bearer.as_str())];
        let (mut wire, reply) = tokio::join!(upstream, world.get(ALICE, &headers));
        assert_eq!(reply.status, 200, "{scheme:?}");
        let stray = wire.seal(STRAY);
        assert!(wire.write(&stray).await, "an open connection");
        let asked = timeout(SOON, wire.request()).await.expect("the sweep closes it");
        assert_eq!(asked, None, "{scheme:?}");
    }
}
