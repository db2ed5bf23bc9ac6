//! The gateway's writes are sent at once, however small, and wait for a stalled reader.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::backend::Answer;
use crate::client::{BOTH, request};
use crate::frames::{DATA, END_STREAM, Frames, HEADERS, SETTINGS, WINDOW_UPDATE};
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/events";
const SOON: Duration = Duration::from_secs(5);

fn scripted(world: &World) -> mpsc::UnboundedSender<Bytes> {
    let (send, receive) = mpsc::unbounded_channel();
    world.backend.on_path(PATH, Answer::Chunks(Arc::new(Mutex::new(Some(receive)))));
    send
}

#[tokio::test]
async fn events_of_one_byte_arrive_one_by_one() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    for version in BOTH {
        let events = scripted(&world);
        let mut client = world.client(version).await;
        let response =
            client.open(request(Method::GET, PATH, &[("authorization", &bearer)], "")).await.expect("a head");
        let mut body = response.into_body();
        for event in 0..100_u8 {
            events.send(Bytes::from(vec![event])).expect("the backend listens");
            let frame = timeout(SOON, body.frame()).await.expect("in time").expect("a frame");
            assert_eq!(frame.expect("no error").into_data().expect("data"), [event][..], "{version:?}");
        }
    }
}

#[tokio::test]
async fn pings_are_answered_while_nothing_else_is_under_way_and_while_a_stream_is() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let events = scripted(&world);
    let mut frames = Frames::connect(&world, 65_535).await;
    for _ in 0..3 {
        frames.is_alive(&[WINDOW_UPDATE]).await;
    }
    frames.get(1, PATH, &bearer).await;
    frames.next_of(HEADERS, 1).await;
    for event in ["one", "two"] {
        events.send(Bytes::from(event)).expect("the backend listens");
        assert_eq!(frames.next_of(DATA, 1).await.payload, event.as_bytes());
        frames.is_alive(&[WINDOW_UPDATE]).await;
    }
    frames.send(SETTINGS, 0, 0, &[]).await;
    assert_eq!(frames.next_of(SETTINGS, 0).await.flags, 1, "settings in between are taken too");
}

#[tokio::test]
async fn a_client_without_a_window_gets_the_head_and_the_body_only_as_it_opens_one() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let events = scripted(&world);
    let mut frames = Frames::connect(&world, 0).await;
    frames.get(1, PATH, &bearer).await;
    frames.next_of(HEADERS, 1).await;
    events.send(Bytes::from("abcdef")).expect("the backend listens");
    frames.is_alive(&[WINDOW_UPDATE]).await;
    for part in ["ab", "cd", "ef"] {
        frames.send(WINDOW_UPDATE, 0, 1, &2_u32.to_be_bytes()).await;
        assert_eq!(frames.next_of(DATA, 1).await.payload, part.as_bytes());
    }
    drop(events);
    let last = frames.next_of(DATA, 1).await;
    assert_eq!((last.flags & END_STREAM, last.payload.len()), (END_STREAM, 0));
}

#[tokio::test]
async fn a_reader_that_stopped_holds_nobody_up_and_has_missed_nothing_when_it_goes_on() {
    const CHUNKS: u8 = 100;
    const CHUNK_BYTES: usize = 100_000;
    let world = World::start().await;
    let bearer = world.bearer("alice");
    for version in BOTH {
        let chunks = scripted(&world);
        let mut client = world.client(version).await;
        let response =
            client.open(request(Method::GET, PATH, &[("authorization", &bearer)], "")).await.expect("a head");
        for chunk in 0..CHUNKS {
            chunks.send(Bytes::from(vec![chunk; CHUNK_BYTES])).expect("the backend listens");
        }
        drop(chunks);
        // Far more than every buffer on the path holds; others are served while this one stalls.
        for _ in 0..50 {
            assert_eq!(world.get("/healthz", &[]).await.status, 200);
        }
        let mut body = response.into_body();
        let mut number = 0;
        while let Some(frame) = timeout(SOON, body.frame()).await.expect("in time") {
            let data = frame.expect("no error").into_data().expect("data");
            for byte in data {
                assert_eq!(usize::from(byte), number / CHUNK_BYTES, "{version:?} at {number}");
                number += 1;
            }
        }
        assert_eq!(number, usize::from(CHUNKS) * CHUNK_BYTES, "{version:?}");
    }
}
