//! An h2c upstream that writes its frames by hand, for behaviour that a well-behaved server never shows.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::frames::{
    ACK, DATA, END_HEADERS, END_STREAM, Frame, HEADERS, PING, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};

/// `:status: 200`, and the start of another status.
pub(crate) const OK: u8 = 0x88;
pub(crate) const STATUS: u8 = 0x08;

/// The upstream's end of a connection.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    /// The number of PINGs received.
    pub(crate) pings: usize,
    answers_pings: bool,
}

impl Peer {
    /// Accepts the gateway's next connection, announcing these settings.
    pub(crate) async fn accept(listener: &TcpListener, settings: &[u8]) -> Self {
        let (stream, _) = listener.accept().await.expect("a connection");
        Self::on(stream, settings).await
    }

    /// The same on an accepted connection.
    pub(crate) async fn on(stream: TcpStream, settings: &[u8]) -> Self {
        stream.set_nodelay(true).expect("no delay");
        let mut peer = Self { stream, pings: 0, answers_pings: true };
        let mut preface = [0; 24];
        peer.stream.read_exact(&mut preface).await.expect("a preface");
        assert_eq!(&preface, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        peer.send(SETTINGS, 0, 0, settings).await;
        peer
    }

    pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).expect("a short frame").to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    /// Returns `false` if the gateway has closed the connection.
    pub(crate) async fn try_send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        self.stream.write_all(&Self::frame(kind, flags, stream, payload)).await.is_ok()
    }

    pub(crate) async fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        assert!(self.try_send(kind, flags, stream, payload).await, "an open connection");
    }

    pub(crate) async fn read(&mut self) -> Option<Frame> {
        let mut head = [0; 9];
        self.stream.read_exact(&mut head).await.ok()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; usize::try_from(length).expect("a length")];
        self.stream.read_exact(&mut payload).await.ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some(Frame { kind: head[3], flags: head[4], stream, payload })
    }

    /// The next frame other than connection-level ones, which are answered properly; `None` at the end.
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            let frame = self.read().await?;
            match frame.kind {
                SETTINGS if frame.flags & ACK == 0 => {
                    self.try_send(SETTINGS, ACK, 0, &[]).await;
                }
                PING if frame.flags & ACK == 0 => {
                    self.pings += 1;
                    if self.answers_pings {
                        self.try_send(PING, ACK, 0, &frame.payload).await;
                    }
                }
                SETTINGS | PING | WINDOW_UPDATE => {}
                _ => return Some(frame),
            }
        }
    }

    /// The stream of the next request, after reading its body to the end.
    pub(crate) async fn request(&mut self) -> Option<u32> {
        loop {
            let frame = self.next().await?;
            if matches!(frame.kind, HEADERS | DATA) && frame.flags & END_STREAM != 0 {
                return Some(frame.stream);
            }
        }
    }

    /// The gateway's next window update of this stream; `None` if it ends the stream or the connection.
    pub(crate) async fn window(&mut self, stream: u32) -> Option<usize> {
        loop {
            let frame = self.read().await?;
            match (frame.kind, frame.payload.as_slice()) {
                (WINDOW_UPDATE, [a, b, c, d]) if frame.stream == stream => {
                    return usize::try_from(u32::from_be_bytes([*a, *b, *c, *d])).ok();
                }
                (RST_STREAM, _) => return None,
                _ => {}
            }
        }
    }

    /// Sends a complete answer with this body.
    pub(crate) async fn answer(&mut self, stream: u32, body: &str) -> bool {
        self.try_send(HEADERS, END_HEADERS, stream, &[OK]).await
            && self.try_send(DATA, END_STREAM, stream, body.as_bytes()).await
    }

    /// Answers every request with its stream's number until the gateway closes the connection.
    pub(crate) async fn serve(&mut self) {
        while let Some(stream) = self.request().await {
            if !self.answer(stream, &format!("own {stream}")).await {
                return;
            }
        }
    }
}
