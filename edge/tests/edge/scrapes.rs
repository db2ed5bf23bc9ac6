//! Modules with TLS or HTTP/2 as metrics targets: each is scraped with its own protocol, within every target's limits.

use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::backend::Answer;
use crate::frames::{DATA, END_HEADERS, END_STREAM, HEADERS};
use crate::metrics::{GOOD, scrape, series_of, text, up, well_formed};
use crate::peer::{OK, Peer};
use crate::tls_upstream::{Authority, Entrance, Scheme, Wire};
use crate::world::World;

/// A target's protocol.
#[derive(Clone, Copy, Debug)]
enum Called {
    Tls12,
    Tls13,
    H2c,
}

const CALLED: [Called; 3] = [Called::Tls12, Called::Tls13, Called::H2c];

/// A target's behaviour after the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    Good,
    /// Silent from the first byte of the connection on.
    Silence,
    /// Silent after the request.
    Hang,
    /// One byte every 100 ms.
    Drip,
    /// Endless comments.
    Endless,
    Fails,
}

struct Target {
    host: String,
    authority: Authority,
    _server: JoinSet<()>,
}

impl Target {
    async fn start(called: Called, does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let authority = Authority::new();
        let scheme = if matches!(called, Called::H2c) { "h2c" } else { "https" };
        let entrance = match called {
            Called::Tls12 => Some(Entrance::of(Scheme::Tls12, &authority)),
            Called::Tls13 => Some(Entrance::of(Scheme::Tls13, &authority)),
            Called::H2c => None,
        };
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let entrance = entrance.clone();
                connections.spawn(async move {
                    if does == Does::Silence {
                        return forever(stream).await;
                    }
                    match entrance {
                        Some(entrance) => drop(over_tls(&entrance, stream, does).await),
                        None => drop(over_http2(stream, does).await),
                    }
                });
            }
        });
        Self { host: format!("{scheme}://localhost:{port}"), authority, _server: server }
    }

    async fn world(&self, trusted: &Authority) -> World {
        let world = World::with(&[
            ("PLATFORM_MODULE_HOST_TIMESHEET", &self.host),
            ("PLATFORM_GATEWAY_UPSTREAM_CA", &trusted.file()),
        ])
        .await;
        world.backend.on_path("/metrics", Answer::Raw(200, GOOD));
        world
    }
}

async fn forever(stream: TcpStream) {
    std::future::pending::<()>().await;
    drop(stream);
}

/// Ends when the gateway has closed the connection.
async fn over_tls(entrance: &Entrance, stream: TcpStream, does: Does) -> Option<()> {
    let mut wire: Wire = entrance.accept(stream).await.ok()?;
    let (method, path) = wire.request().await?;
    assert_eq!((method.as_str(), path.as_str()), ("GET", "/metrics"));
    let head = match does {
        Does::Good => format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{GOOD}", GOOD.len()),
        Does::Fails => "HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n".to_owned(),
        Does::Silence | Does::Hang => String::new(),
        Does::Drip | Does::Endless => "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
    };
    let sealed = wire.seal(head.as_bytes());
    wire.write(&sealed).await.then_some(())?;
    while let Some(more) = more(does).await {
        let sealed = wire.seal(&more);
        wire.write(&sealed).await.then_some(())?;
    }
    wire.request().await.map(drop)
}

async fn over_http2(stream: TcpStream, does: Does) -> Option<()> {
    let mut peer = Peer::on(stream, &[]).await;
    let stream = peer.request().await?;
    match does {
        Does::Good => peer.answer(stream, GOOD).await.then_some(())?,
        // A 500.
        Does::Fails => {
            let failed = peer.try_send(HEADERS, END_HEADERS | END_STREAM, stream, &[0x8e]).await;
            failed.then_some(())?;
        }
        Does::Silence | Does::Hang => {}
        Does::Drip | Does::Endless => {
            peer.try_send(HEADERS, END_HEADERS, stream, &[OK]).await.then_some(())?;
        }
    }
    let mut window = 16_384_usize;
    while let Some(more) = more(does).await {
        while window < more.len() {
            window += peer.window(stream).await?;
        }
        window -= more.len();
        peer.try_send(DATA, 0, stream, &more).await.then_some(())?;
    }
    peer.next().await.map(drop)
}

/// What follows the start.
async fn more(does: Does) -> Option<Vec<u8>> {
    match does {
        Does::Drip => {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Some(b"#".to_vec())
        }
        Does::Endless => Some([b"# ".as_slice(), &[b'x'; 8_000], b"\n"].concat()),
        Does::Good | Does::Silence | Does::Hang | Does::Fails => None,
    }
}

#[tokio::test]
async fn a_module_is_scraped_as_it_is_called() {
    for called in CALLED {
        let target = Target::start(called, Does::Good).await;
        let world = target.world(&target.authority).await;
        let reply = scrape(&world).await;
        let text = text(&reply);
        well_formed(text);
        assert_eq!(
            (up(text, "timesheet"), series_of(text, "timesheet")),
            (Some(true), 4),
            "{called:?}\n{text}"
        );
        assert_eq!((up(text, "org"), series_of(text, "org")), (Some(true), 4), "{called:?}");
    }
}

#[tokio::test]
async fn a_module_whose_certificate_is_not_trusted_is_not_scraped() {
    let target = Target::start(Called::Tls13, Does::Good).await;
    let world = target.world(&Authority::new()).await;
    let reply = scrape(&world).await;
    let text = text(&reply);
    assert_eq!((up(text, "timesheet"), series_of(text, "timesheet")), (Some(false), 0));
    assert_eq!((up(text, "org"), series_of(text, "org")), (Some(true), 4));
}

#[tokio::test]
async fn a_bad_module_with_tls_or_http_2_costs_only_itself_and_two_seconds() {
    for called in CALLED {
        for does in [Does::Silence, Does::Hang, Does::Drip, Does::Endless, Does::Fails] {
            let target = Target::start(called, does).await;
            let world = target.world(&target.authority).await;
            let began = Instant::now();
            let reply = scrape(&world).await;
            let took = began.elapsed();
            let text = text(&reply);
            well_formed(text);
            assert_eq!(
                (up(text, "timesheet"), series_of(text, "timesheet")),
                (Some(false), 0),
                "{called:?} {does:?}"
            );
            for service in ["registry", "identity", "org", "authz"] {
                assert_eq!(
                    (up(text, service), series_of(text, service)),
                    (Some(true), 4),
                    "{called:?} {does:?}"
                );
            }
            assert!(took < Duration::from_secs(4), "{called:?} {does:?}: {took:?}");
        }
    }
}
