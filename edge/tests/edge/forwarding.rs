//! The request that an upstream gets, and the answer that the client gets.

use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body::Frame;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::backend::Answer;
use crate::client::{BOTH, streamed};
use crate::world::World;

#[tokio::test]
async fn a_module_gets_the_clients_bytes_and_the_edges_facts() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let path = "/api/timesheet/v1/companies/1/x%20y%2Fz?a=1&b=%zz&&c";
    for version in BOTH {
        let headers = [
            ("authorization", bearer.as_str()),
            ("host", "localhost:8443"),
            ("x-correlation-id", "mine/1"),
            ("x-forwarded-for", "203.0.113.9"),
            ("x-forwarded-port", "1"),
            ("x-custom", "kept"),
        ];
        let headers = if version == crate::client::Version::H2 {
            &[headers[0], headers[2], headers[3], headers[4], headers[5]][..]
        } else {
            &headers[..]
        };
        let reply = world.send(version, Method::PUT, path, headers, "body").await;
        assert_eq!(reply.status, 200, "{reply:?}");
        assert_eq!(reply.json()["data"], json!({"method": "PUT", "path": path, "body": "body"}));
        assert_eq!(reply.header("x-correlation-id"), Some("mine/1"));
    }
    for seen in world.backend.seen("/api/timesheet") {
        let header = |name: &str| seen.headers.get(name).map(|value| value.to_str().expect("text"));
        assert_eq!(header("authorization"), Some(bearer.as_str()));
        assert_eq!(header("host"), Some("localhost:8443"));
        assert_eq!(header("x-correlation-id"), Some("mine/1"));
        assert_eq!(header("x-forwarded-for"), Some("127.0.0.1"));
        assert_eq!(header("x-forwarded-proto"), Some("https"));
        assert_eq!(header("x-forwarded-host"), Some("localhost:8443"));
        assert_eq!(header("forwarded"), Some("for=127.0.0.1;host=\"localhost:8443\";proto=https"));
        assert_eq!(header("x-forwarded-port"), None);
        assert_eq!(header("x-custom"), Some("kept"));
        assert_eq!(header("content-length"), Some("4"));
    }
}

#[tokio::test]
async fn a_trusted_proxy_is_believed_and_headers_of_one_hop_end_here() {
    let proxied =
        [("PLATFORM_TRUSTED_PROXIES", "127.0.0.0/8"), ("PLATFORM_EXTRA_ORIGINS", "https://public.example")];
    let world = World::with(&proxied).await;
    let bearer = world.bearer("alice");
    let headers = [
        ("authorization", bearer.as_str()),
        ("x-forwarded-for", "203.0.113.9"),
        ("x-forwarded-host", "public.example"),
        ("connection", "x-secret, keep-alive"),
        ("x-secret", "1"),
        ("proxy-authorization", "Basic x"),
    ];
    assert_eq!(world.get("/api/timesheet/v1/x", &headers).await.status, 200);
    let seen = &world.backend.seen("/api/timesheet")[0].headers;
    assert_eq!(seen["x-forwarded-for"], "203.0.113.9, 127.0.0.1");
    assert_eq!(seen["x-forwarded-host"], "public.example");
    for gone in ["x-secret", "proxy-authorization", "connection", "keep-alive"] {
        assert!(!seen.contains_key(gone), "{gone}");
    }
}

/// Headers that only a proxy in front of a server may set.
const CLAIMS: [&str; 47] = [
    "cf-connecting-ip",
    "client-cert",
    "client-cert-chain",
    "client-ip",
    "fastly-client-ip",
    "iv-user",
    "oidc-claim-sub",
    "proxy",
    "remote-addr",
    "remote-groups",
    "remote-user",
    "remote_user",
    "sm_user",
    "ssl-client-cert",
    "ssl-client-s-dn",
    "ssl_client_verify",
    "true-client-ip",
    "wl-proxy-client-ip",
    "x-amzn-oidc-identity",
    "x-arr-clientcert",
    "x-auth-request-email",
    "x-auth-request-user",
    "x-authenticated-user",
    "x-authentik-username",
    "x-client-cert",
    "x-client-ip",
    "x-cluster-client-ip",
    "x-consumer-username",
    "x-forwarded-email",
    "x-forwarded-groups",
    "x-forwarded-user",
    "x-goog-authenticated-user-email",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
    "x-ms-client-principal-name",
    "x-original-method",
    "x-original-url",
    "x-platform-service",
    "x-pomerium-claim-email",
    "x-real-ip",
    "x-remote-user",
    "x-rewrite-url",
    "x-ssl-client-dn",
    "x_http_method_override",
    "x.remote.user",
    "x-webauth-user",
];
/// Similar headers that belong to the client.
const CONTROLS: [&str; 11] = [
    "cf-ray",
    "client",
    "proxies",
    "remote",
    "sec-fetch-mode",
    "ssl",
    "x-api-version",
    "x-client-version",
    "x-custom",
    "x-http-x",
    "x-requested-with",
];

#[tokio::test]
async fn what_servers_take_for_a_proxys_word_about_the_client_ends_here() {
    for trusted in ["", "127.0.0.0/8"] {
        let world = World::with(&[("PLATFORM_TRUSTED_PROXIES", trusted)]).await;
        let bearer = world.bearer("alice");
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(CLAIMS.iter().chain(&CONTROLS).map(|name| (*name, "root")));
        for version in BOTH {
            let before = world.backend.seen("/").len();
            let paths = ["/api/timesheet/v1/x", "/api/org/me/companies", "/realms/platform/x"];
            for path in paths {
                let reply = world.send(version, Method::GET, path, &headers, "").await;
                assert_eq!(reply.status, 200, "{reply:?}");
            }
            let seen = world.backend.seen("/");
            let forwarded = seen.iter().skip(before).filter(|seen| seen.headers.contains_key("x-custom"));
            let mut count = 0;
            for seen in forwarded {
                count += 1;
                let gone: Vec<_> = CLAIMS.iter().filter(|name| seen.headers.contains_key(**name)).collect();
                assert!(gone.is_empty(), "{version:?} {}: {gone:?}", seen.path_and_query);
                assert!(CONTROLS.iter().all(|name| seen.headers[*name] == "root"), "{:?}", seen.headers);
            }
            assert_eq!(count, paths.len(), "each was forwarded");
        }
    }
}

#[tokio::test]
async fn the_subject_of_a_self_scoped_read_is_the_bearers_own() {
    let world = World::start().await;
    let bearer = world.bearer("alice&x=1");
    for (path, internal) in [
        ("/api/org/me/companies?kcSub=root&kc%53ub=root", "/internal/org/me/companies?kcSub=alice%26x%3D1"),
        (
            "/api/auth/effective-access/summary?kcSub=root&companyId=7",
            "/internal/authz/effective-access/summary?companyId=7&kcSub=alice%26x%3D1",
        ),
    ] {
        let reply = world.get(path, &[("authorization", &bearer)]).await;
        assert_eq!(reply.json()["data"]["path"], internal);
    }
}

#[tokio::test]
async fn an_unfit_correlation_id_is_replaced_everywhere() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    for unfit in [None, Some("with space"), Some("")] {
        let mut headers = vec![("authorization", bearer.as_str())];
        headers.extend(unfit.map(|value| ("x-correlation-id", value)));
        let reply = world.get("/api/timesheet/v1/x", &headers).await;
        let made = reply.header("x-correlation-id").expect("an id").to_owned();
        assert_eq!(made.len(), 36);
        assert_eq!(
            world.backend.seen("/api/timesheet").last().expect("seen").headers["x-correlation-id"],
            made.as_str()
        );
    }
}

#[tokio::test]
async fn a_head_answer_keeps_its_length_and_no_body() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    world.backend.on_path("/api/timesheet/v1/long", Answer::Raw(200, "123456789"));
    for version in BOTH {
        let reply = world
            .send(version, Method::HEAD, "/api/timesheet/v1/long", &[("authorization", &bearer)], "")
            .await;
        assert_eq!((reply.status, reply.body.len()), (200, 0));
        assert_eq!(reply.header("content-length"), Some("9"), "{version:?}");
    }
}

#[tokio::test]
async fn upstream_connections_are_used_again() {
    // Each worker has its own connections.
    let world = World::with(&[("PLATFORM_GATEWAY_WORKERS", "1")]).await;
    let bearer = world.bearer("alice");
    let auth = [("authorization", bearer.as_str())];
    assert_eq!(world.get("/api/timesheet/v1/x", &auth).await.status, 200);
    let connections = world.backend.connections();
    for _ in 0..20 {
        assert_eq!(world.get("/api/timesheet/v1/x", &auth).await.status, 200);
    }
    assert_eq!(world.backend.connections(), connections, "one connection served them all");
}

/// Reads one request and answers it, leaving the connection open.
async fn answer(socket: &mut TcpStream) {
    read_request(socket).await;
    socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await.expect("written");
}

async fn read_request(socket: &mut TcpStream) {
    let mut request = [0; 4_096];
    assert!(socket.read(&mut request).await.expect("a request") > 0);
}

#[tokio::test]
async fn a_reused_connection_that_dies_is_tried_once_more_for_idempotent_requests_only() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let variables = [("PLATFORM_MODULE_HOST_TIMESHEET", address.as_str()), ("PLATFORM_GATEWAY_WORKERS", "1")];
    let world = World::with(&variables).await;
    let bearer = world.bearer("alice");
    let auth = [("authorization", bearer.as_str())];
    let (first, mut socket) = tokio::join!(world.get("/api/timesheet/v1/x", &auth), async {
        let (mut socket, _) = listener.accept().await.expect("a connection");
        answer(&mut socket).await;
        socket
    });
    assert_eq!(first.status, 200);
    let (second, mut socket) = tokio::join!(world.get("/api/timesheet/v1/x", &auth), async {
        read_request(&mut socket).await;
        drop(socket);
        let (mut fresh, _) = listener.accept().await.expect("a fresh connection");
        answer(&mut fresh).await;
        fresh
    });
    assert_eq!(second.status, 200);
    let (third, ()) = tokio::join!(world.post("/api/timesheet/v1/x", &auth, "{}"), async {
        read_request(&mut socket).await;
        drop(socket);
    });
    assert_eq!((third.status, third.code().as_str()), (503, "MODULE_UNAVAILABLE"));
    let again = timeout(Duration::from_millis(200), listener.accept()).await;
    assert!(again.is_err(), "a POST is never sent twice");
}

#[tokio::test]
async fn foundation_bodies_are_limited_and_module_bodies_are_not() {
    let world = World::with(&[("PLATFORM_GATEWAY_MAX_BODY", "1KiB")]).await;
    let bearer = world.bearer("alice");
    let auth = [("authorization", bearer.as_str())];
    let (fits, past) = ("x".repeat(1_024), "x".repeat(1_025));
    let route = "/api/auth/effective-access/can";
    assert_eq!(world.post(route, &auth, &fits).await.status, 200);
    let reply = world.post(route, &auth, &past).await;
    assert_eq!((reply.status, reply.code().as_str()), (413, "PAYLOAD_TOO_LARGE"));
    assert_eq!(world.post("/api/timesheet/v1/x", &auth, &past).await.status, 200);
    for version in BOTH {
        let pieces = (0..1_025).map(|_| Frame::data(Bytes::from_static(b"x"))).collect();
        let reply = world.client(version).await.send(streamed(Method::POST, route, &bearer, pieces)).await;
        assert_eq!(
            (reply.status, reply.code().as_str()),
            (413, "PAYLOAD_TOO_LARGE"),
            "{version:?}, no length announced"
        );
    }
}
