//! The aggregated metrics: complete with good targets, and unharmed by every kind of bad one.

use std::time::{Duration, Instant};

use http::Method;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::backend::Answer;
use crate::catalog::until;
use crate::client::{BOTH, Reply};
use crate::world::{World, snapshot};

const ROUTE: &str = "/api/platform/metrics";
/// The targets of a world whose timesheet is enabled.
const TARGETS: [&str; 5] = ["registry", "identity", "org", "authz", "timesheet"];
/// The exposition of a good service, without its own name.
pub(crate) const GOOD: &str = "# HELP http_requests_total Requests handled.\n# TYPE http_requests_total counter\n\
                    http_requests_total{route=\"/x\",method=\"GET\",status=\"200\"} 7\n\
                    # HELP t_seconds A time.\n# TYPE t_seconds histogram\nt_seconds_bucket{le=\"+Inf\"} 1\n\
                    t_seconds_sum NaN\nt_seconds_count 1\n";

pub(crate) async fn scrape(world: &World) -> Reply {
    let bearer = world.bearer("operator");
    world.superadmin(true, "ALLOWED");
    world.get(ROUTE, &[("authorization", &bearer)]).await
}

pub(crate) fn text(reply: &Reply) -> &str {
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("text/plain; version=0.0.4"));
    std::str::from_utf8(&reply.body).expect("UTF-8")
}

pub(crate) fn up(text: &str, service: &str) -> Option<bool> {
    let line = |value: u8| format!("platform_metrics_scrape_up{{service=\"{service}\"}} {value}");
    let has = |value| text.lines().any(|found| found == line(value));
    assert!(!(has(0) && has(1)), "{service} is both up and down");
    (has(0) || has(1)).then(|| has(1))
}

pub(crate) fn series_of(text: &str, service: &str) -> usize {
    let own = format!("service=\"{service}\"");
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.filter(|line| line.contains(&own) && !line.starts_with("platform_metrics_scrape_up")).count()
}

/// Checks that every family has at most one HELP and one TYPE and is contiguous, and that every series names a service.
pub(crate) fn well_formed(text: &str) {
    let mut seen = std::collections::HashSet::new();
    let mut family = "";
    for line in text.lines() {
        let header = line.strip_prefix("# HELP ").or_else(|| line.strip_prefix("# TYPE "));
        let name = header.unwrap_or(line).split([' ', '{']).next().expect("a name");
        match header {
            Some(_) => assert!(name == family || seen.insert(name), "{name} stands twice"),
            None => assert!(name.starts_with(family) && line.contains("service=\""), "{line} under {family}"),
        }
        family = if header.is_some() { name } else { family };
        let types = text.lines().filter(|other| other.starts_with(&format!("# TYPE {family} "))).count();
        assert_eq!(types, 1, "{family}");
    }
    assert!(text.ends_with('\n'));
}

/// A target that answers every connection with these bytes, then falls silent or closes.
struct Rogue {
    address: String,
    _server: JoinSet<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Silence,
    Reset,
    /// Repeats the last byte every 100 ms.
    Drip,
    /// Repeats the last line for ever.
    Endless,
}

async fn rogue(bytes: Vec<u8>, then: Then) -> Rogue {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("an address").to_string();
    let mut server = JoinSet::new();
    server.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let bytes = bytes.clone();
            open.spawn(async move {
                let mut request = [0; 1024];
                let _asked = stream.read(&mut request).await;
                // The gateway may close this connection at any moment, which must not end the others.
                let mut written = stream.write_all(&bytes).await;
                let line = bytes.rsplit(|byte| *byte == b'\n').nth(1).unwrap_or_default().to_vec();
                while written.is_ok() {
                    written = match then {
                        Then::Silence => std::future::pending().await,
                        Then::Reset => return,
                        Then::Drip => {
                            tokio::time::sleep(Duration::from_millis(100)).await;
                            stream.write_all(b"#").await
                        }
                        Then::Endless => stream.write_all(&[line.as_slice(), b"\n"].concat()).await,
                    };
                }
            });
        }
    });
    Rogue { address, _server: server }
}

fn head(rest: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\n{rest}\r\n").into_bytes()
}

fn whole(body: &[u8]) -> Vec<u8> {
    [head(&format!("content-length: {}\r\n", body.len())).as_slice(), body].concat()
}

/// A scrape with this rogue as timesheet; all other targets are good.
async fn scrape_with(rogue: &Rogue) -> (Reply, Duration) {
    let world = World::with(&[("PLATFORM_MODULE_HOST_TIMESHEET", &rogue.address)]).await;
    world.backend.on_path("/metrics", Answer::Raw(200, GOOD));
    let began = Instant::now();
    let reply = scrape(&world).await;
    (reply, began.elapsed())
}

async fn costs_only_itself(what: &str, rogue: &Rogue) -> Duration {
    let (reply, took) = scrape_with(rogue).await;
    let text = text(&reply);
    well_formed(text);
    assert_eq!(up(text, "timesheet"), Some(false), "{what}");
    assert_eq!(series_of(text, "timesheet"), 0, "{what}");
    for service in ["registry", "identity", "org", "authz"] {
        assert_eq!((up(text, service), series_of(text, service)), (Some(true), 4), "{what}: {service}");
    }
    assert!(series_of(text, "gateway") > 0, "{what}");
    took
}

#[tokio::test]
async fn all_services_stand_in_one_exposition() {
    let world = World::start().await;
    world.backend.on_path("/metrics", Answer::Raw(200, GOOD));
    for version in BOTH {
        let bearer = world.bearer("operator");
        world.superadmin(true, "ALLOWED");
        let reply = world.send(version, Method::GET, ROUTE, &[("authorization", &bearer)], "").await;
        let text = text(&reply);
        well_formed(text);
        for service in TARGETS {
            assert_eq!(
                (up(text, service), series_of(text, service)),
                (Some(true), 4),
                "{service} in\n{text}"
            );
        }
        assert!(text.contains("platform_build_info{") && series_of(text, "gateway") > 0);
        assert_eq!(up(text, "docs"), None, "docs is not installed");
    }
    world.superadmin(false, "PLATFORM_ROLE_REQUIRED");
    let bearer = world.bearer("operator");
    let asked = world.backend.seen("/metrics").len();
    assert_eq!(world.get(ROUTE, &[("authorization", &bearer)]).await.status, 403);
    assert_eq!(world.get(ROUTE, &[]).await.status, 401);
    assert_eq!(world.backend.seen("/metrics").len(), asked, "nothing is scraped for a refused caller");
}

#[tokio::test]
async fn only_an_enabled_module_is_a_target() {
    for (state, expected) in
        [("MODULE_DISABLED", None), ("MODULE_NOT_INSTALLED", None), ("MODULE_DEPENDENCY_MISSING", Some(true))]
    {
        let world = World::start().await;
        let bearer = world.bearer("operator");
        world.catalog.send_replace(snapshot(2, state));
        until(&world, &[("authorization", bearer.as_str())], state).await;
        world.backend.on_path("/metrics", Answer::Raw(200, GOOD));
        let reply = scrape(&world).await;
        assert_eq!(up(text(&reply), "timesheet"), expected, "{state}");
        assert_eq!(text(&reply).contains("timesheet"), expected.is_some(), "{state}");
    }
}

#[tokio::test]
async fn a_malformed_or_failing_target_costs_only_itself() {
    for (what, answer) in [
        ("HTML", whole(b"<html><body>ok</body></html>\n")),
        ("not UTF-8", whole(b"a{x=\"\xff\"} 1\n")),
        ("a second TYPE", whole(b"# TYPE a counter\n# TYPE a counter\na 1\n")),
        ("a family in two pieces", whole(b"a 1\nb 1\na{x=\"1\"} 1\n")),
        (
            "another TYPE than the gateway's",
            whole(b"# TYPE http_requests_total gauge\nhttp_requests_total 1\n"),
        ),
        ("another TYPE than the others'", whole(b"# TYPE t_seconds gauge\nt_seconds 1\n")),
        ("an exemplar", whole(b"a 1 # {trace_id=\"x\"} 1\n")),
        ("carriage returns", whole(b"a 1\r\nb 2\r\n")),
        ("no end of the last line", whole(b"a 1\nb 2")),
        ("the gateway's own family", whole(b"platform_metrics_scrape_up{service=\"authz\"} 0\n")),
        ("a series twice", whole(b"a 1\na 2\n")),
        ("a HELP twice", whole(b"# HELP a x\n# HELP a x\na 1\n")),
        ("two series that only service tells apart", whole(b"a{service=\"x\"} 1\na{service=\"y\"} 1\n")),
        ("another status", b"HTTP/1.1 500 No\r\ncontent-length: 4\r\n\r\na 1\n".to_vec()),
        ("a redirect", b"HTTP/1.1 302 Go\r\nlocation: /x\r\ncontent-length: 4\r\n\r\na 1\n".to_vec()),
        ("no HTTP", b"SSH-2.0-x\r\n".to_vec()),
    ] {
        costs_only_itself(what, &rogue(answer, Then::Silence).await).await;
    }
    let reset = rogue([head("content-length: 100\r\n").as_slice(), b"a 1\nb"].concat(), Then::Reset).await;
    costs_only_itself("a reset in a line", &reset).await;
    costs_only_itself("nothing at all", &rogue(Vec::new(), Then::Reset).await).await;
    let free = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = free.local_addr().expect("an address").to_string();
    drop(free);
    costs_only_itself("nobody there", &Rogue { address, _server: JoinSet::new() }).await;
}

#[tokio::test]
async fn a_slow_target_has_two_seconds() {
    for (what, answer, then) in [
        ("a hang before the head", Vec::new(), Then::Silence),
        ("a hang in the body", [head("content-length: 9\r\n").as_slice(), b"a 1\n"].concat(), Then::Silence),
        ("a drip", [head("content-length: 9999\r\n").as_slice(), b"a 1\n"].concat(), Then::Drip),
    ] {
        let took = costs_only_itself(what, &rogue(answer, then).await).await;
        let otherwise = a_good_scrape().await;
        let most = Duration::from_millis(2100) + otherwise;
        assert!(took >= Duration::from_secs(2) && took < most, "{what}: {took:?}, else {otherwise:?}");
    }
}

/// The time of a scrape with good targets, which adds to that of a bad one; it is not short on a busy machine.
async fn a_good_scrape() -> Duration {
    let good = rogue(whole(GOOD.as_bytes()), Then::Silence).await;
    scrape_with(&good).await.1
}

#[tokio::test]
async fn a_target_past_the_bytes_of_all_is_cut_and_the_others_stand() {
    let long = [b"# ".as_slice(), &[b'x'; 1000], b"\n"].concat();
    let nine = rogue(whole(&long.repeat((9 << 20) / long.len() + 1)), Then::Silence).await;
    costs_only_itself("9 MiB", &nine).await;
    let series: Vec<_> = (0..1_000_000).map(|number| format!("a{{x=\"{number}\"}} 1")).collect();
    let series = series.join("\n") + "\n";
    costs_only_itself("a million series", &rogue(whole(series.as_bytes()), Then::Silence).await).await;
    let endless = rogue([head("").as_slice(), &long].concat(), Then::Endless).await;
    let took = costs_only_itself("no end", &endless).await;
    let otherwise = a_good_scrape().await;
    assert!(took < Duration::from_millis(2500) + 2 * otherwise, "{took:?}, else {otherwise:?}");
    let unended = rogue([head("").as_slice(), &vec![b'x'; 1 << 20]].concat(), Then::Silence).await;
    costs_only_itself("a line without end", &unended).await;
}

#[tokio::test]
async fn a_target_below_the_bytes_of_all_is_whole() {
    let line = [b"# ".as_slice(), &[b'x'; 1000], b"\n"].concat();
    // Many reads for the gateway, but little work even for a debug build on a busy machine. `aggregate::fetch` is
    // tested at the limit itself, without the target's 2 s.
    let mut body = line.repeat((256 << 10) / line.len());
    body.extend_from_slice(b"a NaN\nb +Inf\nc{service=\"gateway\"} -Inf 12\n");
    let target = rogue(whole(&body), Then::Silence).await;
    let (reply, _) = scrape_with(&target).await;
    let text = text(&reply);
    well_formed(text);
    assert_eq!(up(text, "timesheet"), Some(true));
    for line in
        ["a{service=\"timesheet\"} NaN", "b{service=\"timesheet\"} +Inf", "c{service=\"timesheet\"} -Inf 12"]
    {
        assert!(text.lines().any(|found| found == line), "{line}");
    }
}

#[tokio::test]
async fn scrapes_at_the_same_time_share_one_run() {
    // A hanging target keeps the run open for 2 s, so that the second scraper joins it.
    let hanging = rogue(Vec::new(), Then::Silence).await;
    let world = World::with(&[("PLATFORM_MODULE_HOST_TIMESHEET", &hanging.address)]).await;
    world.backend.on_path("/metrics", Answer::Raw(200, GOOD));
    let (one, other) = tokio::join!(scrape(&world), scrape(&world));
    assert_eq!(text(&one), text(&other));
    assert_eq!(world.backend.seen("/metrics").len(), 4, "each of the four was asked once");
    text(&scrape(&world).await);
    assert_eq!(world.backend.seen("/metrics").len(), 8, "a later scrape is a run of its own");
}

#[tokio::test]
async fn the_gateway_tells_of_its_connections_refusals_catalog_and_certificate() {
    let world = World::start().await;
    assert_eq!(world.get(ROUTE, &[]).await.status, 401);
    let mut no_tls = TcpStream::connect(world.tls).await.expect("a connection");
    no_tls.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("sent");
    let mut alert = Vec::new();
    no_tls.read_to_end(&mut alert).await.expect("the edge hangs up");
    let reply = scrape(&world).await;
    for part in [
        "platform_gateway_connections{listener=\"tls\",service=\"gateway\"} ",
        "platform_gateway_tls_handshakes_total{result=\"done\",version=\"1.3\",service=\"gateway\"} ",
        "platform_gateway_tls_handshakes_total{result=\"failed\",version=\"none\",service=\"gateway\"} 1",
        "platform_gateway_refusals_total{reason=\"token_missing\",service=\"gateway\"} 1",
        "platform_gateway_catalog_revision{service=\"gateway\"} 1",
        "platform_gateway_catalog_age_seconds{service=\"gateway\"} ",
        "platform_gateway_certificate_expiry_timestamp_seconds{service=\"gateway\"} ",
    ] {
        assert!(text(&reply).lines().any(|line| line.starts_with(part)), "{part} in\n{}", text(&reply));
    }
}
