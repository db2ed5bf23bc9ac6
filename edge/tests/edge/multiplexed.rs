//! An HTTP/2 upstream allows few streams on a connection and has one flow-control window for all of them: one client
//! must not use them up. Each test runs a well-behaved client beside the greedy one.

use std::time::Duration;

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use http::{Method, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::client::{BOTH, Reply, Version, request};
use crate::frames::{Frames, HEADERS};
use crate::raw::SOON;
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/x";
const HANGS: &str = "/api/timesheet/v1/hangs";
const LARGE: &str = "/api/timesheet/v1/large";
/// Far more than any window.
const LARGE_BYTES: usize = 8 << 20;

/// An upstream with this stream limit per connection, behind a gateway with one worker.
async fn world(streams: u32, more: &[(&str, &str)]) -> (World, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let host = format!("h2c://{}", listener.local_addr().expect("an address"));
    let mut upstream = JoinSet::new();
    upstream.spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            connections.spawn(serve(stream, streams));
        }
    });
    let own = [("PLATFORM_MODULE_HOST_TIMESHEET", host.as_str()), ("PLATFORM_GATEWAY_WORKERS", "1")];
    let variables = [&own[..], more].concat();
    (World::with(&variables).await, upstream)
}

async fn serve(stream: TcpStream, streams: u32) {
    let Ok(mut connection) = Builder::new().max_concurrent_streams(streams).handshake(stream).await else {
        return;
    };
    let mut requests = JoinSet::new();
    while let Some(Ok((request, reply))) = connection.accept().await {
        requests.spawn(answer(request.uri().path().to_owned(), reply));
    }
}

async fn answer(path: String, mut reply: SendResponse<Bytes>) {
    let length = match path.as_str() {
        HANGS => return std::future::pending().await,
        LARGE => LARGE_BYTES,
        _ => 2,
    };
    if let Ok(mut body) = reply.send_response(Response::new(()), false) {
        let _sent = body.send_data(Bytes::from(vec![b'x'; length]), true);
        // Resolves once the client resets the stream or the connection ends.
        let _reset = std::future::poll_fn(|context| body.poll_reset(context)).await;
    }
}

async fn get(world: &World, version: Version, bearer: &str) -> Reply {
    let headers = [("authorization", bearer)];
    let answered = world.send(version, Method::GET, PATH, &headers, "");
    timeout(SOON, answered).await.expect("another client's answer in time")
}

/// The bearer of a subject that the gateway knows already and has answered.
async fn known(world: &World, subject: &str) -> String {
    let bearer = world.bearer(subject);
    for version in BOTH {
        assert_eq!(get(world, version, &bearer).await.status, 200, "{version:?}: a control");
    }
    bearer
}

#[tokio::test]
async fn a_client_that_holds_all_streams_of_a_connection_leaves_others_a_new_one() {
    const STREAMS: u32 = 4;
    let (world, _upstream) = world(STREAMS, &[("PLATFORM_MODULE_RESPONSE_HEADER_TIMEOUT", "60s")]).await;
    let (alice, bob) = (known(&world, "alice").await, known(&world, "bob").await);
    let mut hanging = JoinSet::new();
    for _ in 0..2 * STREAMS {
        let mut client = world.client(Version::H1).await;
        let asked = request(Method::GET, HANGS, &[("authorization", &alice)], "");
        hanging.spawn(async move { drop(client.open(asked).await.expect("an answer")) });
    }
    // As many hang there as a connection allows, at the latest when these arrive.
    assert!(timeout(Duration::from_secs(1), hanging.join_next()).await.is_err(), "they hang");
    for version in BOTH {
        let reply = get(&world, version, &bob).await;
        assert_eq!((reply.status, reply.body.as_ref()), (200, &b"xx"[..]), "{version:?}");
    }
}

#[tokio::test]
async fn a_client_that_reads_none_of_its_answers_takes_no_window_of_others() {
    const ANSWERS: u32 = 40;
    let (world, _upstream) = world(256, &[]).await;
    let (alice, bob) = (known(&world, "alice").await, known(&world, "bob").await);
    let mut frames = Frames::connect(&world, 0).await;
    for stream in (1..2 * ANSWERS).step_by(2) {
        frames.get(stream, LARGE, &alice).await;
        frames.next_of(HEADERS, stream).await;
    }
    // Everything that the upstream may send ahead has arrived by then.
    assert!(timeout(Duration::from_secs(1), frames.next()).await.is_err(), "no window, no answer");
    for version in BOTH {
        let reply = get(&world, version, &bob).await;
        assert_eq!((reply.status, reply.body.as_ref()), (200, &b"xx"[..]), "{version:?}");
    }
}
