//! HTTP/2 clients that leave requests unfinished, or stop reading one stream.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::backend::Answer;
use crate::frames::{DATA, END_HEADERS, END_STREAM, Frames, HEADERS, RST_STREAM, WINDOW_UPDATE, get_block};
use crate::world::World;

const EVENTS: &str = "/api/timesheet/v1/events";
const STALLED: &str = "/api/timesheet/v1/stalled";
const HEAD_TIME: Duration = Duration::from_millis(300);
const SOON: Duration = Duration::from_secs(5);

fn scripted(world: &World, path: &str) -> mpsc::UnboundedSender<Bytes> {
    let (send, receive) = mpsc::unbounded_channel();
    world.backend.on_path(path, Answer::Chunks(Arc::new(Mutex::new(Some(receive)))));
    send
}

async fn impatient() -> World {
    World::with(&[("PLATFORM_GATEWAY_HEADER_TIMEOUT", "300ms")]).await
}

/// The one frame of a GET.
fn whole_get(stream: u8) -> Vec<u8> {
    let block = get_block("/healthz", "Bearer x");
    let length = u8::try_from(block.len()).expect("a short block");
    [&[0, 0, length, HEADERS, END_HEADERS | END_STREAM, 0, 0, 0, stream][..], &block].concat()
}

/// Waits for the end of the connection.
async fn closed(frames: &mut Frames) {
    let ended = timeout(SOON, async { while frames.next().await.is_some() {} });
    ended.await.expect("the edge closes the connection");
}

#[tokio::test]
async fn a_head_that_is_not_ended_ends_the_connection_however_it_is_cut() {
    let world = impatient().await;
    let whole = whole_get(1);
    let mut open = whole.clone();
    open[4] = END_STREAM;
    for half in [&whole[..1], &whole[..9], &whole[..whole.len() - 1], &open] {
        let mut frames = Frames::connect(&world, 65_535).await;
        let began = Instant::now();
        frames.send_raw(half).await;
        closed(&mut frames).await;
        assert!(began.elapsed() >= HEAD_TIME, "{} bytes: {:?}", half.len(), began.elapsed());
    }
}

#[tokio::test]
async fn pieces_of_a_head_and_another_stream_do_not_stretch_its_time() {
    let world = impatient().await;
    let bearer = world.bearer("alice");
    let events = scripted(&world, EVENTS);
    let mut frames = Frames::connect(&world, 65_535).await;
    frames.get(1, EVENTS, &bearer).await;
    frames.next_of(HEADERS, 1).await;
    let began = Instant::now();
    for byte in whole_get(3) {
        // The other stream moves all the time.
        if events.send(Bytes::from("event")).is_err() || !frames.try_send_raw(&[byte]).await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    closed(&mut frames).await;
    timeout(SOON, events.closed()).await.expect("the upstream's work is ended");
    assert!(began.elapsed() < HEAD_TIME * 5, "less than the pieces take: {:?}", began.elapsed());
}

#[tokio::test]
async fn a_connection_with_whole_heads_outlives_the_heads_time() {
    let world = impatient().await;
    let bearer = world.bearer("alice");
    let mut frames = Frames::connect(&world, 65_535).await;
    let began = Instant::now();
    let mut stream = 1;
    while began.elapsed() < HEAD_TIME * 3 {
        frames.get(stream, "/healthz", &bearer).await;
        frames.next_of(HEADERS, stream).await;
        frames.is_alive(&[WINDOW_UPDATE, DATA]).await;
        // The bodies are read, so their windows are reopened.
        frames.send(WINDOW_UPDATE, 0, 0, &1_000_u32.to_be_bytes()).await;
        stream += 2;
    }
}

#[tokio::test]
async fn a_stream_the_client_does_not_read_is_reset_and_the_others_go_on() {
    let world = World::with(&[("PLATFORM_GATEWAY_STREAM_IDLE", "400ms")]).await;
    let bearer = world.bearer("alice");
    let (stalled, events) = (scripted(&world, STALLED), scripted(&world, EVENTS));
    let mut frames = Frames::connect(&world, 0).await;
    frames.get(1, STALLED, &bearer).await;
    frames.next_of(HEADERS, 1).await;
    stalled.send(Bytes::from("nobody reads this")).expect("the backend listens");
    frames.get(3, EVENTS, &bearer).await;
    frames.next_of(HEADERS, 3).await;
    frames.send(WINDOW_UPDATE, 0, 3, &1_000_000_u32.to_be_bytes()).await;
    let began = Instant::now();
    let mut reset = None;
    while began.elapsed() < Duration::from_secs(2) {
        events.send(Bytes::from("event")).expect("the other stream goes on");
        let frame = frames.next().await.expect("the connection is open");
        match (frame.kind, frame.stream) {
            (RST_STREAM, 1) => reset = Some(began.elapsed()),
            (DATA, 3) => tokio::time::sleep(Duration::from_millis(20)).await,
            (WINDOW_UPDATE, _) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(reset.is_some_and(|after| after < Duration::from_secs(1)), "{reset:?}");
    timeout(SOON, stalled.closed()).await.expect("the upstream's work is ended");
}
