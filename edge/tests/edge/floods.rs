//! HTTP/2 clients that send frames without work: floods end the connection at once, and large numbers of frames from
//! honest clients do not.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::backend::Answer;
use crate::client::Version;
use crate::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, Frames, GOAWAY, HEADERS, PING, PRIORITY, PRIORITY_UPDATE, RST_STREAM,
    SETTINGS, WINDOW_UPDATE, frame, get_block,
};
use crate::http1::scripted as scripted_upstream;
use crate::limits::closed;
use crate::world::World;

const SOON: Duration = Duration::from_secs(10);
/// RFC 9113, 7.
const ENHANCE_YOUR_CALM: u32 = 11;
/// Below the gateway's limit of 1,000, with room for the frames around it.
const TOLERATED: usize = 900;
/// Above the gateway's limit, with room for the allowance that a slow machine regains meanwhile.
const FLOOD: usize = 2_000;
/// Opens hardly any window.
const ONE: [u8; 4] = [0, 0, 0, 1];
const CANCEL: [u8; 4] = [0, 0, 0, 8];

fn scripted(world: &World, path: &str) -> mpsc::UnboundedSender<Bytes> {
    let (send, receive) = mpsc::unbounded_channel();
    world.backend.on_path(path, Answer::Chunks(Arc::new(Mutex::new(Some(receive)))));
    send
}

/// A frame without work, by name. Stream 1 is known to the gateway.
fn demands() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("PING", frame(PING, 0, 0, b"12345678")),
        ("PING that answers nothing", frame(PING, ACK, 0, b"12345678")),
        ("SETTINGS", frame(SETTINGS, 0, 0, &[])),
        ("SETTINGS with windows", frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0])),
        ("SETTINGS with tables", frame(SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 16, 0])),
        ("WINDOW_UPDATE", frame(WINDOW_UPDATE, 0, 0, &ONE)),
        ("WINDOW_UPDATE of a stream", frame(WINDOW_UPDATE, 0, 1, &ONE)),
        ("PRIORITY", frame(PRIORITY, 0, 1, &[0, 0, 0, 0, 16])),
        ("PRIORITY of an idle stream", frame(PRIORITY, 0, 777, &[0, 0, 0, 0, 16])),
        ("PRIORITY_UPDATE", frame(PRIORITY_UPDATE, 0, 0, b"\0\0\0\x01u=1")),
        ("a frame of no known type", frame(200, 0, 0, b"x")),
    ]
}

/// A connection on which stream 1 is open, or has ended.
async fn connected(world: &World, bearer: &str, open: Option<&str>) -> Frames {
    let mut frames = Frames::connect(world, 65_535).await;
    frames.get(1, open.unwrap_or("/healthz"), bearer).await;
    frames.next_of(HEADERS, 1).await;
    if open.is_none() {
        frames.next_of(DATA, 1).await;
    }
    frames
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_control_frames_ends_the_connection_at_once_beside_an_open_stream_as_without_one() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let mut wrong = Vec::new();
    for (number, (name, demand)) in demands().into_iter().enumerate() {
        for open in [false, true] {
            let path = format!("/api/timesheet/v1/{number}");
            let events = scripted(&world, &path);
            let mut frames = connected(&world, &bearer, open.then_some(&path)).await;
            frames.send_raw(&demand.repeat(TOLERATED)).await;
            assert!(frames.answers_pings().await, "{TOLERATED} × {name} are no flood, open: {open}");
            // The gateway may close before it has taken all of them.
            frames.try_send_raw(&demand.repeat(FLOOD - TOLERATED)).await;
            let ended = frames.ended_with().await;
            if ended != Some(ENHANCE_YOUR_CALM) {
                wrong.push(format!("{name}, open: {open}: {ended:?}"));
            } else if open {
                timeout(SOON, events.closed()).await.expect("the stream's work is ended");
            }
        }
    }
    assert!(wrong.is_empty(), "not ended, or not with ENHANCE_YOUR_CALM: {wrong:#?}");
    let mut client = world.client(Version::H1).await;
    let connections = u64::try_from(demands().len() * 2).expect("a count");
    // The last of them may not have reached the metrics yet.
    let counted = async { while closed(&world, &mut client, &bearer, "flood").await < connections {} };
    timeout(SOON, counted).await.expect("each is counted");
    assert_eq!(closed(&world, &mut client, &bearer, "flood").await, connections);
}

#[tokio::test]
async fn data_that_brings_nothing_ends_the_connection() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    for (name, demand) in
        [("empty", frame(DATA, 0, 1, &[])), ("nothing but padding", frame(DATA, 8, 1, &[3, 0, 0, 0]))]
    {
        // As `h2` counts them.
        for (count, ends) in [(100, false), (101, true)] {
            let mut frames = Frames::connect(&world, 65_535).await;
            frames.send(HEADERS, END_HEADERS, 1, &get_block("/api/timesheet/v1/x", &bearer)).await;
            frames.send_raw(&demand.repeat(count)).await;
            if ends {
                assert_eq!(frames.ended_with().await, Some(ENHANCE_YOUR_CALM), "{count} × {name}");
            } else {
                assert!(frames.answers_pings().await, "{count} × {name}");
            }
        }
    }
}

/// Starts `count` requests one after the other and resets each once `until` of its answer has arrived. Returns how many
/// were made, and how the gateway ended the connection if it did.
async fn resets(world: &World, path: &str, count: u32, until: u8) -> (u32, Option<u32>) {
    let bearer = world.bearer("alice");
    let mut frames = Frames::connect(world, 65_535).await;
    // Room for all answers.
    frames.send(WINDOW_UPDATE, 0, 0, &(1_u32 << 24).to_be_bytes()).await;
    let mut reset = Vec::new();
    for made in 0..count {
        let stream = made * 2 + 1;
        let get = frame(HEADERS, END_HEADERS | END_STREAM, stream, &get_block(path, &bearer));
        // The gateway may have closed meanwhile; its GOAWAY is read next.
        frames.try_send_raw(&[reset, get].concat()).await;
        loop {
            let frame = frames.next().await.expect("a GOAWAY comes before the end");
            if frame.kind == GOAWAY {
                return (made, Some(u32::from(frame.payload[7])));
            }
            if (frame.kind, frame.stream) == (until, stream) {
                break;
            }
        }
        reset = frame(RST_STREAM, 0, stream, &CANCEL);
    }
    assert!(frames.answers_pings().await);
    (count, None)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_resets_ends_the_connection_also_when_the_answers_had_begun() {
    let world = World::start().await;
    let (_lines, receive) = watch::channel("line".to_owned());
    world.backend.on_path("/api/timesheet/v1/endless", Answer::Lines(receive));
    let (made, ended) = resets(&world, "/api/timesheet/v1/endless", 3_000, HEADERS).await;
    assert_eq!(ended, Some(ENHANCE_YOUR_CALM), "after {made}");
    assert!(made >= 1_000, "{made}");
    // A user who leaves a few pages.
    assert_eq!(resets(&world, "/api/timesheet/v1/endless", 900, HEADERS).await, (900, None));
    // Complete answers pay for them.
    assert_eq!(resets(&world, "/healthz", 3_000, DATA).await, (3_000, None));
}

/// An upstream that reads one request to the end of its chunked body, signals when the head has arrived, and answers
/// with the number of bytes.
async fn takes_all(listener: TcpListener, head: oneshot::Sender<()>) {
    let (mut socket, _) = listener.accept().await.expect("a connection");
    let mut read = Vec::new();
    let mut head = Some(head);
    while !read.ends_with(b"\r\n0\r\n\r\n") {
        assert!(socket.read_buf(&mut read).await.expect("bytes") > 0, "after {}", read.len());
        if let Some(head) = head.take() {
            head.send(()).expect("the test waits");
        }
    }
    let bytes: usize = read
        .split(|byte| *byte == b'\n')
        .filter(|line| line.starts_with(b"m"))
        .map(|line| line.len() - 1)
        .sum();
    let body = bytes.to_string();
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    socket.write_all(answer.as_bytes()).await.expect("written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_of_small_messages_may_be_as_long_as_it_likes() {
    const MESSAGES: usize = 100_000;
    // The smallest as fast as the upstream takes them, the others before it takes any.
    for (message, waits) in [(&b"m"[..], true), (b"message of 16 b.", false)] {
        let (world, listener, bearer) = scripted_upstream(&[]).await;
        let (head, head_came) = oneshot::channel();
        let upstream = tokio::spawn(takes_all(listener, head));
        let mut frames = Frames::connect(&world, 65_535).await;
        let mut block = get_block("/api/timesheet/v1/upload", &bearer);
        // POST instead of GET.
        block[0] = 0x83;
        frames.send(HEADERS, END_HEADERS, 1, &block).await;
        frames.send(DATA, 0, 1, message).await;
        if waits {
            head_came.await.expect("the upstream is asked");
        }
        let data = frame(DATA, 0, 1, message);
        let (mut sent, mut window) = (1, 65_535 - message.len());
        while sent < MESSAGES {
            // As many as the window holds, all at once.
            let count = (window / message.len()).min(MESSAGES - sent);
            frames.send_raw(&data.repeat(count)).await;
            sent += count;
            window -= count * message.len();
            while window < message.len() {
                let frame = frames.next().await.unwrap_or_else(|| panic!("closed after {sent}"));
                assert_eq!(frame.kind, WINDOW_UPDATE, "{frame:?} after {sent} of {} bytes", message.len());
                if frame.stream == 1 {
                    let opened: [u8; 4] = frame.payload.try_into().expect("an increment");
                    window += usize::try_from(u32::from_be_bytes(opened)).expect("a size");
                }
            }
        }
        frames.send(DATA, END_STREAM, 1, &[]).await;
        let answer = frames.next_of(DATA, 1).await.payload;
        assert_eq!(String::from_utf8_lossy(&answer), (MESSAGES * message.len()).to_string());
        upstream.await.expect("it took all");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_answers_every_small_message_with_windows_and_a_ping_is_no_flood() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let path = "/api/timesheet/v1/messages";
    let events = scripted(&world, path);
    let mut frames = Frames::connect(&world, 65_535).await;
    frames.get(1, path, &bearer).await;
    frames.next_of(HEADERS, 1).await;
    let answer =
        [frame(WINDOW_UPDATE, 0, 0, &ONE), frame(WINDOW_UPDATE, 0, 1, &ONE), frame(PING, 0, 0, b"how fast")]
            .concat();
    for _ in 0..2_000 {
        events.send(Bytes::from_static(b"x")).expect("the backend listens");
        frames.next_of(DATA, 1).await;
        frames.send_raw(&answer).await;
    }
    assert!(frames.answers_pings().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_download_whose_client_opens_both_windows_for_each_frame_is_no_flood() {
    const CHUNK: usize = 1 << 20;
    const CHUNKS: usize = 32;
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let path = "/api/timesheet/v1/download";
    let chunks = scripted(&world, path);
    for _ in 0..CHUNKS {
        chunks.send(Bytes::from(vec![b'x'; CHUNK])).expect("the backend listens");
    }
    drop(chunks);
    let mut frames = Frames::connect(&world, 65_535).await;
    frames.get(1, path, &bearer).await;
    let (mut length, mut updates) = (0, 0);
    loop {
        let data = frames.next_of(DATA, 1).await;
        if data.flags & END_STREAM != 0 {
            break;
        }
        length += data.payload.len();
        let increment = u32::try_from(data.payload.len()).expect("a length").to_be_bytes();
        let opened =
            [frame(WINDOW_UPDATE, 0, 0, &increment), frame(WINDOW_UPDATE, 0, 1, &increment)].concat();
        frames.send_raw(&opened).await;
        updates += 2;
    }
    assert_eq!(length, CHUNK * CHUNKS);
    assert!(updates > 2_000, "as many as would be a flood: {updates}");
}

/// A client that reads in bursts: the gateway has written the frames before it reads their acknowledgements.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_answers_many_small_messages_at_once_is_no_flood_and_one_that_answers_none_is() {
    const MESSAGES: usize = 3_000;
    let world = World::start().await;
    let bearer = world.bearer("alice");
    for unasked in [false, true] {
        let path = format!("/api/timesheet/v1/burst/{unasked}");
        let events = scripted(&world, &path);
        let mut frames = Frames::connect(&world, 65_535).await;
        frames.get(1, &path, &bearer).await;
        frames.next_of(HEADERS, 1).await;
        let (mut came, mut length) = (0, 0);
        for round in 1..=4 {
            for _ in 0..MESSAGES {
                events.send(Bytes::from_static(b"x")).expect("the backend listens");
            }
            let (mut answers, before) = (Vec::new(), came);
            while length < MESSAGES * round {
                let data = frames.next_of(DATA, 1).await;
                length += data.payload.len();
                came += 1;
                let increment = u32::try_from(data.payload.len()).expect("a length").to_be_bytes();
                answers.extend(frame(WINDOW_UPDATE, 0, 0, &increment));
                answers.extend(frame(WINDOW_UPDATE, 0, 1, &increment));
            }
            assert!(came - before > 1_000, "as many as would be a flood: {came} after {before}");
            frames.send_raw(&answers).await;
            assert!(frames.answers_pings().await, "after {came} messages");
        }
        if unasked {
            // What was earned and not used, and more than the limit ahead.
            frames.try_send_raw(&frame(WINDOW_UPDATE, 0, 0, &ONE).repeat(3 * came + FLOOD)).await;
            assert_eq!(frames.ended_with().await, Some(ENHANCE_YOUR_CALM));
        }
    }
}
