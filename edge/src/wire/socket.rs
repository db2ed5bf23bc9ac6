//! A connection to an upstream: plain, or with TLS. And what the edge knows of a client's socket beyond its bytes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::server;

use super::sending::Sending;

/// A dialled connection.
#[derive(Debug)]
pub(crate) enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// Whether nothing has happened to an idle connection: no byte came, and no end. A system call only when the reactor
    /// knows of something.
    pub(crate) fn is_quiet(&self) -> bool {
        let mut byte = [0];
        // With TLS a session ticket may wait here, which is not the end; one that has ended shows with the next request.
        let Self::Plain(stream) = self else { return true };
        matches!(stream.try_read(&mut byte), Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// A client's connection.
pub(crate) trait ClientSocket: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Resolves when a client that sends nothing more has left as well: with TLS it says goodbye when it stops sending, and
    /// ends the connection when it leaves. Without TLS nothing tells the two apart, and it is taken to listen.
    fn poll_left(&self, context: &mut Context<'_>) -> Poll<()>;
}

impl ClientSocket for TcpStream {
    fn poll_left(&self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl ClientSocket for server::TlsStream<Sending> {
    fn poll_left(&self, context: &mut Context<'_>) -> Poll<()> {
        let stream = self.get_ref().0.socket();
        let mut byte = [0];
        loop {
            if ready!(stream.poll_read_ready(context)).is_err() {
                return Poll::Ready(());
            }
            match stream.try_read(&mut byte) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // The end, or bytes after the goodbye, which are nobody's.
                _ => return Poll::Ready(()),
            }
        }
    }
}
