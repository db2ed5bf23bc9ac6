//! A TCP connection that is read line by line, for STARTTLS.
//!
//! What a server sends before the TLS handshake could come from an attacker on the way, so nothing of it may count
//! afterwards. lettre reads all that has arrived, and takes the rest for replies to the commands inside TLS. This
//! connection returns one line per read, so anything after the reply to `STARTTLS` goes to the TLS handshake, which
//! then fails.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use lettre::transport::smtp::client::AsyncTokioStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Bytes that one read takes from the connection.
const CHUNK: usize = 4 << 10;

/// The connection, or why there is none: reading fails with that, because lettre makes its errors itself.
pub(crate) struct Lines {
    stream: io::Result<TcpStream>,
    /// What was read beyond the line that was asked for.
    ahead: BytesMut,
}

impl Lines {
    pub(crate) fn new(stream: io::Result<TcpStream>) -> Self {
        Self { stream, ahead: BytesMut::new() }
    }

    fn stream(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        match &mut self.stream {
            Ok(stream) => Ok(Pin::new(stream)),
            Err(error) => Err(std::mem::replace(error, io::ErrorKind::NotConnected.into())),
        }
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lines").field(&self.stream).finish()
    }
}

impl AsyncTokioStream for Lines {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        match &self.stream {
            Ok(stream) => stream.peer_addr(),
            Err(_) => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl AsyncRead for Lines {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.ahead.is_empty() {
            let mut chunk = [0; CHUNK];
            let mut read = ReadBuf::new(&mut chunk);
            ready!(self.stream()?.poll_read(context, &mut read))?;
            self.ahead.extend_from_slice(read.filled());
        }
        let line = self.ahead.iter().position(|byte| *byte == b'\n').map_or(self.ahead.len(), |at| at + 1);
        let taken = line.min(buffer.remaining());
        buffer.put_slice(self.ahead.get(..taken).unwrap_or_default());
        self.ahead.advance(taken);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Lines {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream()?.poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream()?.poll_shutdown(context)
    }
}
