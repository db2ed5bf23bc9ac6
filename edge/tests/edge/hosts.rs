//! The host of a request: a module sees only the platform's own names, and a strict gateway answers for no other.

use serde_json::Value;

use crate::backend::Seen;
use crate::client::{BOTH, Version};
use crate::raw::Raw;
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/x";
const NAMES: [(&str, &str); 2] =
    [("PLATFORM_DOMAIN", "platform.example:9443"), ("PLATFORM_EXTRA_ORIGINS", "https://app.example")];

/// Returns the status and the code for a request to this host.
async fn ask(world: &World, version: Version, path: &str, host: &str, headers: &str) -> (u16, String) {
    let (status, body) = match version {
        Version::H1 => {
            let mut client = Raw::client(world).await;
            client.send(format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n")).await;
            let head = client.head().await;
            (head.status(), client.body(&head).await)
        }
        Version::H2 => by_http2(world, path, host, headers).await,
    };
    let body: Value = serde_json::from_str(&body).unwrap_or_default();
    (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
}

async fn by_http2(world: &World, path: &str, host: &str, headers: &str) -> (u16, String) {
    let stream = crate::client::tls(world.tls, &world.root, Version::H2).await;
    let (mut sender, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    let mut driver = tokio::task::JoinSet::new();
    driver.spawn(async { drop(connection.await) });
    let mut request = http::Request::builder().uri(format!("https://{host}{path}"));
    for line in headers.split_terminator("\r\n") {
        let (name, value) = line.split_once(": ").expect("a header");
        request = request.header(name, value);
    }
    let (answer, _) = sender.send_request(request.body(()).expect("a request"), true).expect("sent");
    let answer = answer.await.expect("an answer");
    let (status, mut stream) = (answer.status().as_u16(), answer.into_body());
    let mut body = Vec::new();
    while let Some(data) = stream.data().await {
        body.extend_from_slice(&data.expect("no error"));
    }
    (status, String::from_utf8(body).expect("text"))
}

/// The host headers that the module received: `Host`, `X-Forwarded-Host`, `Forwarded`.
fn told(seen: &Seen) -> [String; 3] {
    ["host", "x-forwarded-host", "forwarded"].map(|name| {
        let values: Vec<_> =
            seen.headers.get_all(name).iter().map(|value| value.to_str().expect("text")).collect();
        values.join(" | ")
    })
}

fn of(host: &str) -> [String; 3] {
    [host.to_owned(), host.to_owned(), format!("for=127.0.0.1;host=\"{host}\";proto=https")]
}

#[tokio::test]
async fn a_module_hears_only_of_the_platforms_own_names() {
    let world = World::with(&NAMES).await;
    let bearer = format!("authorization: {}\r\n", world.bearer("alice"));
    let (tls, plain) = (
        format!("platform.example:{}", world.tls.port()),
        format!("platform.example:{}", world.plain.port()),
    );
    for version in BOTH {
        for (host, expected) in [
            ("evil.example", "platform.example:9443"),
            ("platform.example.evil.example", "platform.example:9443"),
            ("evil-platform.example", "platform.example:9443"),
            ("platform.example.", "platform.example:9443"),
            // Another server's port on the same name is not the platform.
            ("platform.example:1337", "platform.example:9443"),
            ("127.0.0.1:8443", "platform.example:9443"),
            ("[::1]", "platform.example:9443"),
            ("localhost:8443", "platform.example:9443"),
            ("platform.example:9443", "platform.example:9443"),
            ("Platform.Example", "Platform.Example"),
            ("platform.example:443", "platform.example:443"),
            (tls.as_str(), tls.as_str()),
            (plain.as_str(), plain.as_str()),
            ("app.example", "app.example"),
        ] {
            assert_eq!(ask(&world, version, PATH, host, &bearer).await, (200, String::new()), "{host}");
            let seen = world.backend.seen(PATH);
            assert_eq!(told(seen.last().expect("a request")), of(expected), "{version:?} {host}");
        }
    }
}

#[tokio::test]
async fn without_a_domain_the_names_of_loopback_are_the_platforms() {
    let world = World::start().await;
    let bearer = format!("authorization: {}\r\n", world.bearer("alice"));
    for version in BOTH {
        for (host, expected) in [
            ("evil.example", "localhost:8443"),
            ("198.51.100.7", "localhost:8443"),
            ("localhost", "localhost"),
            ("localhost:1234", "localhost:1234"),
            ("127.0.0.1:8443", "127.0.0.1:8443"),
            ("[::1]:8443", "[::1]:8443"),
        ] {
            assert_eq!(ask(&world, version, PATH, host, &bearer).await.0, 200, "{host}");
            let seen = world.backend.seen(PATH);
            assert_eq!(told(seen.last().expect("a request")), of(expected), "{version:?} {host}");
        }
    }
}

#[tokio::test]
async fn a_trusted_proxy_may_name_only_the_platforms_own_names_either() {
    let trusted = [NAMES[0], NAMES[1], ("PLATFORM_TRUSTED_PROXIES", "127.0.0.0/8")];
    let world = World::with(&trusted).await;
    let bearer = format!("authorization: {}\r\n", world.bearer("alice"));
    let own = "for=127.0.0.1;host=\"platform.example:9443\";proto=https";
    for version in BOTH {
        for (claim, host, forwarded) in [
            ("x-forwarded-host: app.example\r\n", "app.example", ""),
            ("x-forwarded-host: app.example, 10.0.0.1\r\n", "app.example", ""),
            ("x-forwarded-host: evil.example\r\n", "platform.example:9443", ""),
            ("x-forwarded-host: evil.example, app.example\r\n", "platform.example:9443", ""),
            ("x-forwarded-host: \r\n", "platform.example:9443", ""),
            (
                "forwarded: for=203.0.113.9;host=app.example;proto=https\r\n",
                "platform.example:9443",
                "for=203.0.113.9;host=app.example;proto=https, ",
            ),
            (
                "forwarded: for=203.0.113.9; Host=\"evil.example\" ;proto=https\r\n",
                "platform.example:9443",
                "for=203.0.113.9;proto=https, ",
            ),
            (
                "forwarded: host=evil.example, for=\"a,;\\\"host=b\"\r\n",
                "platform.example:9443",
                "for=\"a,;\\\"host=b\", ",
            ),
            ("forwarded: for=1;host=\"evil.example\r\n", "platform.example:9443", ""),
        ] {
            let headers = format!("{bearer}{claim}");
            // The proxy calls the gateway by address.
            assert_eq!(ask(&world, version, PATH, "10.0.0.9:8443", &headers).await.0, 200, "{claim}");
            let seen = world.backend.seen(PATH);
            let expected = ["platform.example:9443".to_owned(), host.to_owned(), format!("{forwarded}{own}")];
            assert_eq!(told(seen.last().expect("a request")), expected, "{version:?} {claim}");
        }
    }
}

#[tokio::test]
async fn a_strict_edge_answers_for_its_own_names_alone() {
    let strict = [NAMES[0], NAMES[1], ("PLATFORM_GATEWAY_STRICT_HOST", "true")];
    let world = World::with(&strict).await;
    let bearer = format!("authorization: {}\r\n", world.bearer("alice"));
    let preflight = "origin: https://app.example\r\naccess-control-request-method: GET\r\n";
    for version in BOTH {
        for path in [PATH, "/api/org/me/companies", "/realms/platform/x", "/nowhere", "/healthz/x"] {
            for host in ["evil.example", "127.0.0.1", "platform.example:1337", "localhost:8443"] {
                let (status, code) = ask(&world, version, path, host, &bearer).await;
                assert_eq!(
                    (status, code.as_str()),
                    (421, "MISDIRECTED_REQUEST"),
                    "{version:?} {path} {host}"
                );
            }
        }
        let claimed = format!("{bearer}x-forwarded-host: platform.example\r\n");
        assert_eq!(ask(&world, version, PATH, "evil.example", &claimed).await.0, 421, "a stranger's claim");
        for host in ["platform.example", "platform.example:9443", "app.example"] {
            assert_eq!(ask(&world, version, PATH, host, &bearer).await.0, 200, "{version:?} {host}");
        }
        // Balancers call by address.
        for path in ["/healthz", "/readyz"] {
            assert_eq!(ask(&world, version, path, "10.0.0.9:8443", "").await.0, 200, "{version:?} {path}");
        }
    }
    assert!(world.backend.seen(PATH).iter().all(|seen| told(seen)[0] != "evil.example"));
    let mut client = Raw::client(&world).await;
    client.send(format!("OPTIONS {PATH} HTTP/1.1\r\nhost: evil.example\r\n{preflight}\r\n")).await;
    assert_eq!(client.head().await.status(), 421, "nor does it allow a browser to ask");
}

#[tokio::test]
async fn a_strict_edge_takes_the_host_that_a_trusted_proxy_names() {
    let strict =
        [NAMES[0], ("PLATFORM_GATEWAY_STRICT_HOST", "true"), ("PLATFORM_TRUSTED_PROXIES", "127.0.0.0/8")];
    let world = World::with(&strict).await;
    let bearer = format!("authorization: {}\r\n", world.bearer("alice"));
    for version in BOTH {
        for (claim, status) in [("platform.example", 200), ("evil.example", 421), ("", 421)] {
            let headers = format!("{bearer}x-forwarded-host: {claim}\r\n");
            let answer = ask(&world, version, PATH, "10.0.0.9:8443", &headers).await;
            assert_eq!(answer.0, status, "{version:?} {claim}");
        }
    }
}
