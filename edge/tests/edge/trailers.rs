//! Trailers in both directions: checksums and statuses pass, and fields that belong in the head do not.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use http_body::Frame;
use http_body_util::BodyExt;

use crate::client::{BOTH, Version, request, streamed};
use crate::http1::scripted;
use crate::raw::Raw;
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/x";

/// Trailers that pass: the message's result (gRPC, RFC 9530, `Server-Timing`, `ETag`), and unknown fields.
const KEPT: [&str; 13] = [
    "content-digest",
    "digest",
    "etag",
    "grpc-message",
    "grpc-status",
    "grpc-status-details-bin",
    "repr-digest",
    "server-timing",
    "signature",
    "signature-input",
    "x-amz-checksum-sha256",
    "x-custom-bin",
    "x_sum.total",
];

/// Fields that belong in the head, with other spellings of them.
const DROPPED: &[&str] = &[
    // Routing and sender.
    "host",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-anything",
    "x-real-ip",
    "x_forwarded_for",
    "x.real.ip",
    "x_real_ip",
    "x-original-url",
    "x-rewrite-url",
    "x-forwarded",
    "x-host",
    "x-http-host-override",
    "x-client-ip",
    "true-client-ip",
    "cf-connecting-ip",
    "via",
    "alt-svc",
    "max-forwards",
    "x-http-method-override",
    "x_http_method",
    "x-method-override",
    // Framing and connection management.
    "te",
    "trailer",
    "expect",
    "content_length",
    "transfer_encoding",
    "content.length",
    "http2-settings",
    // The caller.
    "authorization",
    "cookie",
    "cookie2",
    "set-cookie",
    "set-cookie2",
    "www-authenticate",
    "authentication-info",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-authentication-info",
    "x-api-key",
    "x-auth-token",
    "remote-user",
    "x-remote-user",
    "origin",
    "referer",
    "user-agent",
    "sec-fetch-site",
    "idempotency-key",
    "idempotency_key",
    // The body's format.
    "content-type",
    "content-encoding",
    "content-range",
    "content-location",
    "content-disposition",
    "content-language",
    "content_type",
    "content.disposition",
    "content-security-policy",
    "range",
    "accept",
    "accept-encoding",
    "accept-ranges",
    // Handling of the answer.
    "age",
    "allow",
    "cache-control",
    "date",
    "expires",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-range",
    "location",
    "pragma",
    "refresh",
    "retry-after",
    "vary",
    "warning",
    "strict-transport-security",
    "server",
    "access-control-allow-origin",
    "access_control_allow_origin",
    "clear-site-data",
    "x-frame-options",
    "x-content-type-options",
    "ratelimit",
    "ratelimit-policy",
    "x-catalog-revision",
    // The message's ids.
    "x-correlation-id",
    "x_correlation_id",
    "traceparent",
    "tracestate",
];

fn all() -> impl Iterator<Item = &'static str> {
    DROPPED.iter().copied().chain(KEPT)
}

/// The trailers that remain: the allowed ones with their values, and any others.
fn judge(came: &[(String, String)]) -> (Vec<String>, Vec<String>) {
    let (kept, others): (Vec<_>, Vec<_>) = came.iter().partition(|(name, _)| KEPT.contains(&name.as_str()));
    assert!(kept.iter().all(|(name, value)| *value == format!("of {name}")), "{came:?}");
    let sorted = |list: Vec<&(String, String)>| {
        let mut names: Vec<String> = list.into_iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    };
    (sorted(kept), sorted(others))
}

#[tokio::test]
async fn a_clients_trailers_say_nothing_that_a_head_decides_by() {
    let (world, listener, bearer) = scripted(&[]).await;
    // Sixty-four trailers are the maximum of an HTTP/1.1 message.
    let names: Vec<&str> = all().collect();
    for version in BOTH {
        let mut came = Vec::new();
        for part in names.chunks(50) {
            let mut trailers = HeaderMap::new();
            // HTTP/2 allows only `TE: trailers`: any other value makes the whole message malformed.
            for name in part.iter().filter(|name| version == Version::H1 || **name != "te") {
                trailers
                    .insert(HeaderName::from_static(name), format!("of {name}").parse().expect("a value"));
            }
            let module = async {
                let mut upstream = Raw::upstream(&listener).await;
                upstream.head().await;
                upstream.expect("2\r\n{}\r\n0\r\n").await;
                let trailers = upstream.fields().await;
                upstream.send("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}").await;
                trailers
            };
            let (status, trailers) = tokio::join!(post(&world, version, &bearer, trailers), module);
            assert_eq!(status, 200);
            came.extend(trailers);
        }
        let (kept, others) = judge(&came);
        assert_eq!(others, Vec::<String>::new(), "{version:?}: the module saw them");
        assert_eq!(kept, KEPT, "{version:?}");
    }
}

#[tokio::test]
async fn a_modules_trailers_say_nothing_that_a_head_decides_by() {
    let (world, listener, bearer) = scripted(&[]).await;
    let names: Vec<&str> = all().collect();
    for version in BOTH {
        let mut came = Vec::new();
        for part in names.chunks(50) {
            let fields: Vec<_> = part.iter().map(|name| format!("{name}: of {name}\r\n")).collect();
            let fields = fields.concat();
            let module = async {
                let mut upstream = Raw::upstream(&listener).await;
                upstream.head().await;
                upstream
                    .send(format!(
                        "HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n\
                         2\r\n{{}}\r\n0\r\n{fields}\r\n"
                    ))
                    .await;
            };
            let asked = async {
                match version {
                    Version::H1 => raw_trailers(&world, &bearer).await,
                    Version::H2 => {
                        let mut client = world.client(version).await;
                        let asked = request(Method::GET, PATH, &[("authorization", &bearer)], "");
                        let body = client.open(asked).await.expect("an answer").into_body();
                        let body = body.collect().await.expect("a whole body");
                        pairs(body.trailers().expect("trailers"))
                    }
                }
            };
            let (trailers, ()) = tokio::join!(asked, module);
            came.extend(trailers);
        }
        let (kept, others) = judge(&came);
        assert_eq!(others, Vec::<String>::new(), "{version:?}: the client saw them");
        assert_eq!(kept, KEPT, "{version:?}");
    }
}

/// The status of a request with these trailers. Over HTTP/1.1 they are written by hand: a good client omits most.
async fn post(world: &World, version: Version, bearer: &str, trailers: HeaderMap) -> u16 {
    if version == Version::H2 {
        let frames = vec![Frame::data(Bytes::from_static(b"{}")), Frame::trailers(trailers)];
        let asked = streamed(Method::POST, PATH, bearer, frames);
        return world.client(version).await.send(asked).await.status;
    }
    let lines: Vec<_> = pairs(&trailers).iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let fields = lines.concat();
    let mut client = Raw::client(world).await;
    client
        .send(format!(
            "POST {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: {bearer}\r\n\
             transfer-encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n{fields}\r\n"
        ))
        .await;
    client.head().await.status()
}

/// The raw trailers of an answer over HTTP/1.1.
async fn raw_trailers(world: &World, bearer: &str) -> Vec<(String, String)> {
    let mut client = Raw::client(world).await;
    client
        .send(format!(
            "GET {PATH} HTTP/1.1\r\nhost: localhost\r\nauthorization: {bearer}\r\nte: trailers\r\n\r\n"
        ))
        .await;
    client.head().await;
    client.expect("2\r\n{}\r\n0\r\n").await;
    client.fields().await
}

fn pairs(headers: &HeaderMap<HeaderValue>) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| value.to_str().expect("text").to_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}
