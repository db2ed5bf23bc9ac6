//! Bodies are streamed as they arrive, in both directions, and a broken one never looks complete.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Method, Request};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;

use crate::backend::Answer;
use crate::client::{BOTH, request};
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/stream";
const SOON: Duration = Duration::from_secs(5);

fn chunks() -> (mpsc::UnboundedSender<Bytes>, Answer) {
    let (send, receive) = mpsc::unbounded_channel();
    (send, Answer::Chunks(Arc::new(Mutex::new(Some(receive)))))
}

#[tokio::test]
async fn an_answer_arrives_chunk_by_chunk() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    for version in BOTH {
        let (send, answer) = chunks();
        world.backend.on_path(PATH, answer);
        let mut client = world.client(version).await;
        let response =
            client.open(request(Method::GET, PATH, &[("authorization", &bearer)], "")).await.expect("a head");
        let mut body = response.into_body();
        for chunk in ["one", "two", "three"] {
            send.send(Bytes::from(chunk)).expect("the backend listens");
            let frame =
                timeout(SOON, body.frame()).await.expect("in time").expect("a frame").expect("no error");
            assert_eq!(frame.into_data().expect("data"), chunk, "{version:?}");
        }
        drop(send);
        let rest = timeout(SOON, body.collect()).await.expect("in time").expect("a good end");
        assert!(rest.to_bytes().is_empty(), "{version:?}");
    }
}

#[tokio::test]
async fn a_request_body_arrives_chunk_by_chunk() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let world = World::with(&[("PLATFORM_MODULE_HOST_TIMESHEET", &address)]).await;
    let bearer = world.bearer("alice");
    for version in BOTH {
        let (send, receive) = mpsc::unbounded_channel::<Bytes>();
        let frames = stream::unfold(receive, |mut receive| async {
            receive.recv().await.map(|chunk| (chunk, receive))
        });
        let body = BodyExt::boxed(StreamBody::new(frames.map(|chunk| Ok(Frame::data(chunk)))));
        let request = Request::builder()
            .method("POST")
            .uri(PATH)
            .header("authorization", &bearer)
            .body(body)
            .expect("a request");
        let mut client = world.client(version).await;
        let upstream = async {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            let mut got = Vec::new();
            for chunk in ["one", "two"] {
                send.send(Bytes::from(chunk)).expect("the client sends");
                while !String::from_utf8_lossy(&got).contains(chunk) {
                    assert!(socket.read_buf(&mut got).await.expect("bytes") > 0, "the edge keeps sending");
                }
            }
            drop(send);
            while !got.ends_with(b"0\r\n\r\n") {
                assert!(socket.read_buf(&mut got).await.expect("bytes") > 0, "the edge ends the body");
            }
            socket
                .write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}")
                .await
                .expect("written");
        };
        let (reply, ()) =
            timeout(SOON, async { tokio::join!(client.send(request), upstream) }).await.expect("in time");
        assert_eq!(reply.status, 200, "{version:?}");
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_reset_and_never_ends_well() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    for version in BOTH {
        let (send, answer) = chunks();
        world.backend.on_path(PATH, answer);
        let mut client = world.client(version).await;
        let response =
            client.open(request(Method::GET, PATH, &[("authorization", &bearer)], "")).await.expect("a head");
        let mut body = response.into_body();
        send.send(Bytes::from("one")).expect("the backend listens");
        assert!(timeout(SOON, body.frame()).await.expect("in time").expect("a frame").is_ok());
        send.send(Bytes::new()).expect("the backend listens");
        let end = timeout(SOON, body.frame()).await.expect("in time");
        assert!(matches!(end, Some(Err(_))), "{version:?}: {end:?}");
    }
}

#[tokio::test]
async fn a_short_body_of_a_known_length_is_reset_too() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let world = World::with(&[("PLATFORM_MODULE_HOST_TIMESHEET", &address)]).await;
    let bearer = world.bearer("alice");
    for version in BOTH {
        let mut client = world.client(version).await;
        // On HTTP/2 a reset may overtake a head sent just before it, so the reset waits for the head.
        let begun = Notify::new();
        let upstream = async {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345").await.expect("written");
            let mut request = [0; 1_024];
            assert!(socket.read(&mut request).await.expect("a request") > 0);
            begun.notified().await;
        };
        let exchange = async {
            let response = client
                .open(request(Method::GET, PATH, &[("authorization", &bearer)], ""))
                .await
                .expect("a head");
            begun.notify_one();
            response.into_body().collect().await
        };
        let (body, ()) = timeout(SOON, async { tokio::join!(exchange, upstream) }).await.expect("in time");
        assert!(body.is_err(), "{version:?}");
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_upstreams_work() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    for version in BOTH {
        let (send, answer) = chunks();
        world.backend.on_path(PATH, answer);
        let mut client = world.client(version).await;
        let response =
            client.open(request(Method::GET, PATH, &[("authorization", &bearer)], "")).await.expect("a head");
        drop(response);
        drop(client);
        let noticed = timeout(SOON, async {
            // The backend drops the body, and with it the receiver, when the gateway has closed the connection.
            while send.send(Bytes::from("more")).is_ok() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        assert!(noticed.await.is_ok(), "{version:?}");
    }
}
