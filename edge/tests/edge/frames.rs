//! An HTTP/2 client that writes its frames by hand, for behaviour that a well-behaved client never shows.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::client::{Version, tls};
use crate::world::World;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;
pub(crate) const PRIORITY_UPDATE: u8 = 16;

/// A flag of SETTINGS and PING.
pub(crate) const ACK: u8 = 1;
/// A flag of DATA and HEADERS.
pub(crate) const END_STREAM: u8 = 1;
/// A flag of HEADERS and CONTINUATION.
pub(crate) const END_HEADERS: u8 = 4;

/// The identifier of the initial window setting.
const INITIAL_WINDOW_SIZE: u8 = 4;
const SOON: Duration = Duration::from_secs(5);

/// One frame as received.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

/// One connection.
pub(crate) struct Frames(TlsStream<TcpStream>);

impl Frames {
    /// Connects, sends the preface with these settings, and waits until the gateway has acknowledged them.
    pub(crate) async fn connect(world: &World, window: u32) -> Self {
        let mut frames = Self(tls(world.tls, &world.root, Version::H2).await);
        frames.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.expect("written");
        let setting = [&[0, INITIAL_WINDOW_SIZE][..], &window.to_be_bytes()].concat();
        frames.send(SETTINGS, 0, 0, &setting).await;
        frames.send(SETTINGS, ACK, 0, &[]).await;
        let taken = frames.next_of(SETTINGS, 0).await;
        assert_eq!(taken.flags & ACK, 0, "the edge's own settings come first");
        let taken = frames.next_of(SETTINGS, 0).await;
        assert_eq!(taken.flags & ACK, ACK, "then it takes the client's");
        frames
    }

    pub(crate) async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.send_raw(&frame(kind, flags, stream, payload)).await;
    }

    pub(crate) async fn send_raw(&mut self, bytes: &[u8]) {
        assert!(self.try_send_raw(bytes).await, "the connection is open");
    }

    /// Whether the gateway still accepts bytes.
    pub(crate) async fn try_send_raw(&mut self, bytes: &[u8]) -> bool {
        self.0.write_all(bytes).await.is_ok() && self.0.flush().await.is_ok()
    }

    /// A complete GET on `stream`.
    pub(crate) async fn get(&mut self, stream: u32, path: &str, bearer: &str) {
        self.send(HEADERS, END_HEADERS | END_STREAM, stream, &get_block(path, bearer)).await;
    }

    /// The next frame; `None` if the gateway has closed the connection.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        timeout(SOON, self.read()).await.expect("a frame in time")
    }

    async fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).expect("a length")];
        self.0.read_exact(&mut payload).await.expect("a whole frame");
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// The next frame of a kind on a stream; others are skipped.
    pub(crate) async fn next_of(&mut self, kind: u8, stream: u32) -> Frame {
        loop {
            let frame = self.next().await.expect("the connection is open");
            if (frame.kind, frame.stream) == (kind, stream) {
                return frame;
            }
        }
    }

    /// The error code of the GOAWAY with which the gateway ends the connection; other frames are skipped. `None` if the
    /// connection does not end, or ends without a GOAWAY.
    pub(crate) async fn ended_with(&mut self) -> Option<u32> {
        let mut code = None;
        while let Some(frame) = timeout(SOON, self.read()).await.ok()? {
            if frame.kind == GOAWAY {
                let bytes = frame.payload.get(4..8).expect("a last stream and a code");
                code = Some(u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]));
            }
        }
        code
    }

    /// Whether a PING is answered, possibly after other frames; `false` if the gateway closes the connection.
    pub(crate) async fn answers_pings(&mut self) -> bool {
        if !self.try_send_raw(&frame(PING, 0, 0, b"question")).await {
            return false;
        }
        while let Some(frame) = self.next().await {
            if (frame.kind, frame.flags, frame.payload.as_slice()) == (PING, ACK, &b"question"[..]) {
                return true;
            }
        }
        false
    }

    /// Checks that a PING is answered, with only `passed_over` before the answer.
    pub(crate) async fn is_alive(&mut self, passed_over: &[u8]) {
        self.send(PING, 0, 0, b"are you?").await;
        let frame = loop {
            let frame = self.next().await.expect("the connection is open");
            if !passed_over.contains(&frame.kind) {
                break frame;
            }
        };
        assert_eq!((frame.kind, frame.flags, frame.payload.as_slice()), (PING, ACK, &b"are you?"[..]));
    }
}

/// A frame as sent over the network.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The header block of a GET: pseudo-headers and the bearer, none of it indexed.
pub(crate) fn get_block(path: &str, bearer: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x87];
    for (name_index, value) in [(&[0x04][..], path), (&[0x01], "localhost:8443"), (&[0x0f, 0x08], bearer)] {
        block.extend_from_slice(name_index);
        append_length(&mut block, value.len());
        block.extend_from_slice(value.as_bytes());
    }
    block
}

/// A length of RFC 7541, 5.1, with a prefix of 7 bits.
pub(crate) fn append_length(block: &mut Vec<u8>, length: usize) {
    let byte = |value: usize| u8::try_from(value).expect("below 256");
    if length < 127 {
        block.push(byte(length));
        return;
    }
    block.push(127);
    let mut rest = length - 127;
    while rest >= 128 {
        block.push(byte(rest % 128 + 128));
        rest /= 128;
    }
    block.push(byte(rest));
}
