//! Answers over HTTP/2 before the request's body has arrived: the client can read them before its stream is reset, and
//! a moderate body ends normally.

use std::time::{Duration, Instant};

use tokio::net::TcpListener;

use crate::frames::{
    DATA, END_HEADERS, END_STREAM, Frame, Frames, HEADERS, RST_STREAM, WINDOW_UPDATE, get_block,
};
use crate::http1::scripted;
use crate::metrics::{scrape, text};
use crate::peer::{OK, Peer};
use crate::raw::Raw;
use crate::world::World;

const PATH: &str = "/api/timesheet/v1/x";
const PIECE: usize = 16 << 10;
/// The limits of one body, as in `body/h2/unwanted.rs`, and of a connection's bodies at the same time.
const MAX_BYTES: usize = 1 << 20;
const MAX_READ_AWAY: u32 = 32;
const NO_ERROR: [u8; 4] = 0_u32.to_be_bytes();

/// A POST whose body is still to come.
fn post(bearer: &str) -> Vec<u8> {
    let mut block = get_block(PATH, bearer);
    // POST instead of GET.
    block[0] = 0x83;
    block
}

/// One stream's body, sent as fast as the windows allow.
struct Sender {
    stream: u32,
    window: usize,
    sent: usize,
    /// Frames received on this stream, other than those that open its window.
    came: Vec<Frame>,
}

impl Sender {
    fn new(stream: u32) -> Self {
        Self { stream, window: 64 << 10, sent: 0, came: Vec::new() }
    }

    /// Sends this many more bytes; `false` if the stream is reset first.
    async fn send(&mut self, frames: &mut Frames, bytes: usize) -> bool {
        let until = self.sent + bytes;
        while self.sent < until {
            while self.window < PIECE {
                if !self.receive(frames).await {
                    return false;
                }
            }
            frames.send(DATA, 0, self.stream, &[b'x'; PIECE]).await;
            self.sent += PIECE;
            self.window -= PIECE;
        }
        true
    }

    /// Returns `false` if the stream is reset.
    async fn receive(&mut self, frames: &mut Frames) -> bool {
        let frame = frames.next().await.expect("the connection is open");
        if frame.stream == self.stream && frame.kind == WINDOW_UPDATE {
            let opened = u32::from_be_bytes(frame.payload.try_into().expect("an increment"));
            self.window += usize::try_from(opened).expect("a size");
        } else if frame.stream == self.stream {
            self.came.push(frame);
        }
        !self.is_reset()
    }

    fn is_reset(&self) -> bool {
        self.came.iter().any(|frame| frame.kind == RST_STREAM)
    }

    /// Waits for the end of the answer; no reset may come before it.
    async fn answered(&mut self, frames: &mut Frames) {
        while !self.came.iter().any(|frame| frame.flags & END_STREAM != 0 && frame.kind != RST_STREAM) {
            assert!(self.receive(frames).await, "reset before its answer: {:?}", self.came);
        }
        assert!(self.came.iter().all(|frame| matches!(frame.kind, HEADERS | DATA)), "{:?}", self.came);
    }

    /// Waits for the reset, which must carry `NO_ERROR`.
    async fn reset(&mut self, frames: &mut Frames) {
        while !self.is_reset() {
            self.receive(frames).await;
        }
        let reset = self.came.iter().find(|frame| frame.kind == RST_STREAM).expect("a reset");
        assert_eq!(reset.payload, NO_ERROR);
    }
}

#[tokio::test]
async fn a_moderate_body_of_a_refused_request_comes_to_its_end() {
    let world = World::start().await;
    let mut frames = Frames::connect(&world, 65_535).await;
    let mut refused = Sender::new(1);
    frames.send(HEADERS, END_HEADERS, 1, &post("Bearer x")).await;
    assert!(refused.send(&mut frames, PIECE).await, "the first piece is on its way with the head");
    refused.answered(&mut frames).await;
    // Four times the first window.
    assert!(refused.send(&mut frames, 256 << 10).await, "reset: {:?}", refused.came);
    frames.send(DATA, END_STREAM, 1, b"end").await;
    frames.is_alive(&[WINDOW_UPDATE]).await;
    assert!(!refused.is_reset());
}

#[tokio::test]
async fn a_body_without_end_is_read_up_to_its_bound_and_then_reset_alone() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let mut frames = Frames::connect(&world, 65_535).await;
    let mut refused = Sender::new(1);
    frames.send(HEADERS, END_HEADERS, 1, &post("Bearer x")).await;
    refused.answered(&mut frames).await;
    assert!(refused.send(&mut frames, MAX_BYTES).await, "at the bound");
    assert!(!refused.send(&mut frames, 256 << 10).await, "past it");
    refused.reset(&mut frames).await;
    assert!(refused.sent <= MAX_BYTES + (128 << 10), "{} bytes", refused.sent);
    frames.get(3, PATH, &bearer).await;
    frames.next_of(HEADERS, 3).await;
}

#[tokio::test]
async fn a_client_that_neither_sends_nor_ends_its_body_is_reset_soon() {
    let world = World::start().await;
    let bearer = world.bearer("alice");
    let mut frames = Frames::connect(&world, 65_535).await;
    let mut refused = Sender::new(1);
    let began = Instant::now();
    frames.send(HEADERS, END_HEADERS, 1, &post("Bearer x")).await;
    refused.answered(&mut frames).await;
    frames.get(3, PATH, &bearer).await;
    frames.next_of(HEADERS, 3).await;
    assert!(began.elapsed() < Duration::from_secs(1), "others do not wait meanwhile");
    refused.reset(&mut frames).await;
    let waited = began.elapsed();
    assert!((Duration::from_secs(1)..Duration::from_secs(5)).contains(&waited), "{waited:?}");
}

#[tokio::test]
async fn so_many_bodies_of_one_connection_are_read_away_at_the_same_time() {
    let world = World::start().await;
    let mut frames = Frames::connect(&world, 65_535).await;
    let streams = (0..MAX_READ_AWAY).map(|number| 2 * number + 1);
    for stream in streams.clone() {
        frames.send(HEADERS, END_HEADERS, stream, &post("Bearer x")).await;
        Sender::new(stream).answered(&mut frames).await;
    }
    let past = 2 * MAX_READ_AWAY + 1;
    frames.send(HEADERS, END_HEADERS, past, &post("Bearer x")).await;
    let mut one_too_many = Sender::new(past);
    one_too_many.reset(&mut frames).await;
    assert!(one_too_many.came[0].kind == HEADERS, "it has its answer nevertheless");
    let metrics = scrape(&world).await;
    let limited = "platform_gateway_rate_limited_total{scope=\"unwanted_bodies\",service=\"gateway\"} 1";
    assert!(text(&metrics).contains(limited), "{}", text(&metrics));
    // A stream that ends frees its slot.
    frames.send(DATA, END_STREAM, 1, b"end").await;
    let next = past + 2;
    frames.send(HEADERS, END_HEADERS, next, &post("Bearer x")).await;
    let mut fits = Sender::new(next);
    fits.answered(&mut frames).await;
    assert!(fits.send(&mut frames, PIECE).await, "read away");
    frames.send(DATA, END_STREAM, next, b"end").await;
    frames.is_alive(&[WINDOW_UPDATE]).await;
}

#[tokio::test]
async fn an_early_answer_of_an_upstream_is_read_as_well() {
    let (world, listener, bearer) = scripted(&[]).await;
    let mut frames = Frames::connect(&world, 65_535).await;
    let mut early = Sender::new(1);
    frames.send(HEADERS, END_HEADERS, 1, &post(&bearer)).await;
    assert!(early.send(&mut frames, PIECE).await);
    let mut upstream = Raw::upstream(&listener).await;
    upstream.head().await;
    upstream.send("HTTP/1.1 413 Content Too Large\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno").await;
    early.answered(&mut frames).await;
    assert!(early.send(&mut frames, 256 << 10).await, "reset: {:?}", early.came);
    frames.send(DATA, END_STREAM, 1, b"end").await;
    frames.is_alive(&[WINDOW_UPDATE]).await;
}

#[tokio::test]
async fn an_early_answer_of_an_http_2_upstream_is_read_as_well() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let host = format!("h2c://{}", listener.local_addr().expect("an address"));
    let world = World::with(&[("PLATFORM_MODULE_HOST_TIMESHEET", &host)]).await;
    let bearer = world.bearer("alice");
    let mut frames = Frames::connect(&world, 65_535).await;
    let mut early = Sender::new(1);
    frames.send(HEADERS, END_HEADERS, 1, &post(&bearer)).await;
    assert!(early.send(&mut frames, PIECE).await);
    let mut upstream = Peer::accept(&listener, &[]).await;
    let asked = upstream.next().await.expect("a request");
    assert!(upstream.try_send(HEADERS, END_HEADERS | END_STREAM, asked.stream, &[OK]).await);
    assert!(upstream.try_send(RST_STREAM, 0, asked.stream, &NO_ERROR).await);
    early.answered(&mut frames).await;
    assert!(early.send(&mut frames, 256 << 10).await, "reset: {:?}", early.came);
    frames.send(DATA, END_STREAM, 1, b"end").await;
    frames.is_alive(&[WINDOW_UPDATE]).await;
}

#[tokio::test]
async fn a_refused_tunnel_is_read_away_as_well() {
    let world = World::start().await;
    let mut frames = Frames::connect(&world, 65_535).await;
    // `:method: CONNECT`, `:protocol: websocket`.
    let mut block = b"\x02\x07CONNECT\x87\x00\x09:protocol\x09websocket".to_vec();
    block.extend_from_slice(&get_block(PATH, "Bearer x")[2..]);
    let mut refused = Sender::new(1);
    frames.send(HEADERS, END_HEADERS, 1, &block).await;
    refused.answered(&mut frames).await;
    assert!(refused.send(&mut frames, 128 << 10).await, "reset: {:?}", refused.came);
    frames.send(DATA, END_STREAM, 1, b"end").await;
    frames.is_alive(&[WINDOW_UPDATE]).await;
}
