//! The listeners over time: a new certificate while running; at shutdown requests in flight finish and new connections
//! are refused.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::backend::Answer;
use crate::client::{BOTH, Version, request, try_tls};
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/stream";
const SOON: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_request_in_flight_finishes_and_nothing_new_begins() {
    for version in BOTH {
        let mut world = World::start().await;
        let bearer = world.bearer("alice");
        let (send, receive) = mpsc::unbounded_channel();
        world.backend.on_path(PATH, Answer::Chunks(Arc::new(Mutex::new(Some(receive)))));
        let mut client = world.client(version).await;
        let response =
            client.open(request(Method::GET, PATH, &[("authorization", &bearer)], "")).await.expect("a head");
        world.stop.cancel();
        let refused = async {
            while TcpStream::connect(world.tls).await.is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(SOON, refused).await.expect("the listener closes");
        assert!(!world.served.is_finished(), "the request is still under way");
        send.send(Bytes::from("late")).expect("the backend listens");
        drop(send);
        let body =
            timeout(SOON, response.into_body().collect()).await.expect("in time").expect("a whole body");
        assert_eq!(body.to_bytes(), "late", "{version:?}");
        timeout(SOON, &mut world.served)
            .await
            .expect("the edge ends")
            .expect("no panic")
            .expect("a clean end");
    }
}

#[tokio::test]
async fn the_drain_has_an_end() {
    let mut world = World::with(&[("PLATFORM_DRAIN_TIMEOUT", "200ms")]).await;
    let bearer = world.bearer("alice");
    world.backend.on_path(PATH, Answer::Hang);
    let mut client = world.client(Version::H1).await;
    let hanging = request(Method::GET, PATH, &[("authorization", &bearer)], "");
    let asked = tokio::spawn(async move { client.open(hanging).await.map(|response| response.status()) });
    let arrived = async {
        while world.backend.seen(PATH).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(SOON, arrived).await.expect("the request is under way");
    world.stop.cancel();
    timeout(SOON, &mut world.served).await.expect("the edge ends").expect("no panic").expect("a clean end");
    assert!(asked.await.expect("no panic").is_err(), "the request was cut");
}

#[tokio::test]
async fn a_new_certificate_is_taken_up_while_running() {
    let world = World::start().await;
    let fresh = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    world.write_tls_files(&fresh.cert.pem(), &fresh.signing_key.serialize_pem());
    let taken_up = async {
        while try_tls(world.tls, fresh.cert.der(), Version::H1).await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, taken_up).await.expect("the new certificate is served");
}

#[tokio::test]
async fn the_plain_listener_serves_the_same_routes_and_says_http() {
    let world = World::with(&[("PLATFORM_DOMAIN", "edge.example")]).await;
    let bearer = world.bearer("alice");
    let stream = TcpStream::connect(world.plain).await.expect("a connection");
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.expect("HTTP/1.1");
    let driver = tokio::spawn(connection);
    let headers = [("authorization", bearer.as_str()), ("host", "edge.example")];
    let response = sender
        .send_request(request(Method::GET, "/api/timesheet/v1/x", &headers, ""))
        .await
        .expect("an answer");
    assert_eq!(response.status(), 200);
    drop((response, sender));
    let seen = &world.backend.seen("/api/timesheet")[0].headers;
    assert_eq!(seen["x-forwarded-proto"], "http");
    assert_eq!(seen["host"], "edge.example");
    timeout(SOON, driver).await.expect("the connection ends").expect("no panic").expect("a clean end");
}
