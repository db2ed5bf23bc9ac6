//! Headers that only the platform sets on answers: HSTS if it has a public name, and nothing that a module sets about
//! the server, the transport or the origin's other addresses.

use http::Method;
use tokio::net::TcpStream;

use crate::client::{BOTH, Version, request};
use crate::http1::scripted;
use crate::raw::Raw;
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/x";
const POLICY: &str = "max-age=31536000";

#[tokio::test]
async fn every_tls_answer_of_a_public_platform_demands_tls_from_then_on() {
    let world = World::with(&[("PLATFORM_DOMAIN", "platform.example.com")]).await;
    let bearer = world.bearer("alice");
    let auth = ("authorization", bearer.as_str());
    let preflight = [("origin", "https://platform.example.com"), ("access-control-request-method", "GET")];
    for version in BOTH {
        for (method, path, headers, status) in [
            (Method::GET, PATH, &[auth][..], 200),
            (Method::HEAD, PATH, &[auth], 200),
            (Method::GET, PATH, &[], 401),
            (Method::GET, PATH, &[("x-user-id", "root")], 400),
            (Method::GET, "/nowhere", &[], 404),
            (Method::DELETE, "/healthz", &[], 405),
            (Method::GET, "/healthz", &[], 200),
            (Method::GET, "/realms/platform/x", &[], 200),
            (Method::OPTIONS, PATH, &preflight, 204),
        ] {
            let mut client = world.client(version).await;
            let answer = client.open(request(method.clone(), path, headers, "")).await.expect("an answer");
            assert_eq!(answer.status().as_u16(), status, "{version:?} {method} {path}");
            let policies: Vec<_> = answer.headers().get_all("strict-transport-security").iter().collect();
            assert_eq!(policies, [POLICY], "{version:?} {method} {path}");
        }
    }
    // Malformed input is answered over TLS, too.
    let mut client = Raw::client(&world).await;
    client.send("GET / HTTP/1.1\nhost: a\n\n").await;
    let head = client.head().await;
    assert_eq!((head.status(), head.header("strict-transport-security")), (400, Some(POLICY)));
    // A client without TLS must not get HSTS (RFC 6797, 7.2).
    let mut client = Raw::on(TcpStream::connect(world.plain).await.expect("a connection"));
    client.send("GET /healthz HTTP/1.1\r\nhost: platform.example.com\r\n\r\n").await;
    let head = client.head().await;
    assert_eq!((head.status(), head.header("strict-transport-security")), (200, None));
}

#[tokio::test]
async fn a_platform_without_a_public_name_demands_nothing() {
    for domain in [
        "",
        "localhost:9443",
        "127.0.0.1",
        "[::1]:8443",
        "198.51.100.7",
        "edge.local",
        "platform.internal:443",
        "a.test",
        "platform",
    ] {
        let world = World::with(&[("PLATFORM_DOMAIN", domain)]).await;
        for version in BOTH {
            let reply = world.send(version, Method::GET, "/healthz", &[], "").await;
            assert_eq!((reply.status, reply.header("strict-transport-security")), (200, None), "{domain}");
        }
    }
}

/// Headers that a module may not set, and headers that it may.
const SAID: &str = "server: module/1.0\r\nstrict-transport-security: max-age=0; includeSubDomains\r\n\
                    alt-svc: h3=\"evil.example:443\"\r\nproxy-authentication-info: x\r\nkeep-alive: timeout=5\r\n\
                    upgrade: h2c\r\nx-catalog-revision: 7\r\naccess-control-allow-origin: *\r\n\
                    x-content-type-options: nosniff\r\nx-frame-options: DENY\r\ncontent-security-policy: default-src 'self'\r\n\
                    x-powered-by: module\r\nset-cookie: a=1\r\nvia: 1.1 inner\r\n";
const GONE: [&str; 7] = [
    "server",
    "alt-svc",
    "proxy-authentication-info",
    "keep-alive",
    "upgrade",
    "x-catalog-revision",
    "access-control-allow-origin",
];
const KEPT: [&str; 6] = [
    "x-content-type-options",
    "x-frame-options",
    "content-security-policy",
    "x-powered-by",
    "set-cookie",
    "via",
];

#[tokio::test]
async fn a_module_speaks_for_its_answer_and_not_for_the_platform() {
    for (domain, policy) in [("platform.example.com", Some(POLICY)), ("localhost", None)] {
        let (world, listener, bearer) = scripted(&[("PLATFORM_DOMAIN", domain)]).await;
        for version in BOTH {
            for status in ["200 OK", "426 Upgrade Required", "500 Oh"] {
                let module = async {
                    let mut upstream = Raw::upstream(&listener).await;
                    upstream.head().await;
                    let length = "content-length: 0\r\nconnection: close\r\n";
                    upstream.send(format!("HTTP/1.1 {status}\r\n{SAID}{length}\r\n")).await;
                };
                let mut client = world.client(version).await;
                let asked = client.open(request(Method::GET, PATH, &[("authorization", &bearer)], ""));
                let (answer, ()) = tokio::join!(asked, module);
                let answer = answer.expect("an answer");
                assert_eq!(answer.status().as_u16().to_string(), status[..3]);
                for name in GONE {
                    assert_eq!(answer.headers().get(name), None, "{version:?} {status}: {name}");
                }
                for name in KEPT {
                    assert!(answer.headers().contains_key(name), "{version:?} {status}: {name}");
                }
                let policies: Vec<_> = answer.headers().get_all("strict-transport-security").iter().collect();
                assert_eq!(policies, policy.into_iter().collect::<Vec<_>>(), "{version:?} {status}");
            }
        }
    }
}

#[tokio::test]
async fn nor_does_it_in_what_comes_before_its_answer() {
    let (world, listener, bearer) = scripted(&[]).await;
    for version in BOTH {
        let module = async {
            let mut upstream = Raw::upstream(&listener).await;
            upstream.head().await;
            upstream
                .send(format!(
                    "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n{SAID}\r\n\
                     HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                ))
                .await;
        };
        let hints = async {
            match version {
                Version::H1 => {
                    let mut client = Raw::client(&world).await;
                    client
                        .send(format!(
                            "GET {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: {bearer}\r\n\r\n"
                        ))
                        .await;
                    let hints = client.head().await;
                    assert_eq!(hints.status(), 103);
                    hints.headers.into_iter().map(|(name, _)| name).collect::<Vec<_>>()
                }
                Version::H2 => hints_of_http2(&world, &bearer).await,
            }
        };
        let (names, ()) = tokio::join!(hints, module);
        assert!(names.iter().any(|name| name == "link"), "{version:?}: {names:?}");
        for name in GONE.into_iter().chain(["strict-transport-security"]) {
            assert!(!names.iter().any(|known| known == name), "{version:?}: {name}");
        }
    }
}

async fn hints_of_http2(world: &World, bearer: &str) -> Vec<String> {
    let stream = crate::client::tls(world.tls, &world.root, Version::H2).await;
    let (mut sender, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
    let mut driver = tokio::task::JoinSet::new();
    driver.spawn(async { drop(connection.await) });
    let request = http::Request::builder().uri(format!("https://localhost:8443{PATH}"));
    let request = request.header("authorization", bearer).body(()).expect("a request");
    let (mut answer, _) = sender.send_request(request, true).expect("sent");
    let hints = std::future::poll_fn(|context| answer.poll_informational(context)).await;
    let hints = hints.expect("hints").expect("no error");
    assert_eq!(hints.status(), 103);
    let names = hints.headers().keys().map(ToString::to_string).collect();
    assert_eq!(answer.await.expect("an answer").status(), 200);
    names
}
