//! HTTP/1.1 written and read by hand, on both sides of the gateway: for messages that well-behaved peers never send,
//! and to see every byte.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use crate::client::{Version, tls};
use crate::world::World;

pub(crate) const SOON: Duration = Duration::from_secs(5);

/// One connection, byte by byte.
pub(crate) struct Raw<S> {
    pub(crate) stream: S,
    read: Vec<u8>,
}

/// A message as received.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) first: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Message {
    pub(crate) fn status(&self) -> u16 {
        self.first.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line")
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Raw<TlsStream<TcpStream>> {
    /// Connects to the gateway as a client.
    pub(crate) async fn client(world: &World) -> Self {
        Self::on(tls(world.tls, &world.root, Version::H1).await)
    }
}

impl Raw<TcpStream> {
    /// Accepts the gateway's next connection to an upstream.
    pub(crate) async fn upstream(listener: &TcpListener) -> Self {
        Self::on(timeout(SOON, listener.accept()).await.expect("in time").expect("a connection").0)
    }

    /// The same, without a time limit.
    pub(crate) async fn upstream_at_last(listener: &TcpListener) -> Self {
        Self::on(listener.accept().await.expect("a connection").0)
    }

    /// Reads the next head, without a time limit; `None` at the end of the connection.
    pub(crate) async fn next_head(&mut self) -> Option<Message> {
        if self.read.is_empty() && !matches!(self.stream.read_buf(&mut self.read).await, Ok(1..)) {
            return None;
        }
        Some(self.head().await)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Raw<S> {
    pub(crate) const fn on(stream: S) -> Self {
        Self { stream, read: Vec::new() }
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("written");
        self.stream.flush().await.expect("flushed");
    }

    /// The same; `false` if the other side has closed the connection.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        self.stream.write_all(bytes.as_ref()).await.is_ok() && self.stream.flush().await.is_ok()
    }

    /// Reads the next head.
    pub(crate) async fn head(&mut self) -> Message {
        let end = loop {
            if let Some(at) = self.read.windows(4).position(|window| window == b"\r\n\r\n") {
                break at + 4;
            }
            assert!(self.more().await, "a head, not {:?}", String::from_utf8_lossy(&self.read));
        };
        let text = String::from_utf8(self.read.drain(..end).collect()).expect("text");
        let mut lines = text.trim_end().split("\r\n");
        let first = lines.next().expect("a line").to_owned();
        let headers = lines.map(|line| {
            let (name, value) = line.split_once(": ").expect("a header");
            (name.to_owned(), value.to_owned())
        });
        Message { first, headers: headers.collect() }
    }

    /// Reads the next head, however long it takes.
    pub(crate) async fn head_without_limit(&mut self) -> Message {
        while !self.read.windows(4).any(|window| window == b"\r\n\r\n") {
            let read = self.stream.read_buf(&mut self.read).await.expect("bytes");
            assert!(read > 0, "a head, not {:?}", String::from_utf8_lossy(&self.read));
        }
        self.head().await
    }

    /// Reads exactly this many bytes of a body.
    pub(crate) async fn expect(&mut self, bytes: &str) {
        while self.read.len() < bytes.len() {
            assert!(self.more().await, "{bytes:?}, not {:?}", String::from_utf8_lossy(&self.read));
        }
        let got: Vec<u8> = self.read.drain(..bytes.len()).collect();
        assert_eq!(String::from_utf8_lossy(&got), bytes);
    }

    /// Reads the next line.
    pub(crate) async fn line(&mut self) -> String {
        let end = loop {
            if let Some(at) = self.read.windows(2).position(|window| window == b"\r\n") {
                break at + 2;
            }
            assert!(self.more().await, "a line, not {:?}", String::from_utf8_lossy(&self.read));
        };
        let line: Vec<u8> = self.read.drain(..end).collect();
        String::from_utf8(line).expect("text").trim_end().to_owned()
    }

    /// Reads the fields up to the next empty line: trailers.
    pub(crate) async fn fields(&mut self) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.split_once(": ") else { return fields };
            fields.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Reads the body of known length that follows this head.
    pub(crate) async fn body(&mut self, head: &Message) -> String {
        let length: usize = head.header("content-length").expect("a length").parse().expect("a number");
        while self.read.len() < length {
            assert!(self.more().await, "a whole body");
        }
        String::from_utf8(self.read.drain(..length).collect()).expect("text")
    }

    /// Reads everything up to the end of the connection.
    pub(crate) async fn rest(&mut self) -> String {
        while self.more().await {}
        String::from_utf8_lossy(&std::mem::take(&mut self.read)).into_owned()
    }

    async fn more(&mut self) -> bool {
        // An upstream that hangs waits for the gateway's time limit, which is as long as SOON.
        let read = timeout(2 * SOON, self.stream.read_buf(&mut self.read)).await.expect("bytes in time");
        read.is_ok_and(|length| length > 0)
    }
}
