//! A connection to an upstream, plain or with TLS, and [`ClientSocket`], the client's side.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::server;

use crate::tls::records::Records;
use crate::tls::sending::Sending;

/// The maximum that an idle TLS connection may receive between two checks: session tickets and key updates are a few
/// hundred bytes each.
const MAX_WHILE_IDLE: usize = 16 << 10;

/// A dialled connection. Dropped during an exchange, it is reset: otherwise the system would hold its port for a
/// minute, and a client that cancels requests as fast as it sends them would exhaust the ports.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: Stream,
    is_under_way: bool,
}

#[derive(Debug)]
enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<Records>>),
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.is_under_way
            && let Err(error) = self.tcp().set_zero_linger()
        {
            tracing::debug!(%error, "an upstream connection is closed without a reset");
        }
    }
}

impl Socket {
    pub(crate) const fn plain(stream: TcpStream) -> Self {
        Self { stream: Stream::Plain(stream), is_under_way: false }
    }

    pub(crate) fn tls(stream: TlsStream<Records>) -> Self {
        Self { stream: Stream::Tls(Box::new(stream)), is_under_way: false }
    }

    /// Records that an exchange starts or is over.
    pub(crate) const fn set_under_way(&mut self, is_under_way: bool) {
        self.is_under_way = is_under_way;
    }

    fn tcp(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0.tcp(),
        }
    }

    /// Whether an idle connection is as the last answer left it: no application data, no partial record, no end of
    /// stream. Makes a system call only if the reactor reports readiness. With TLS, session tickets and key updates are
    /// processed and ignored.
    pub(crate) fn is_quiet(&mut self) -> bool {
        match &mut self.stream {
            Stream::Plain(stream) => is_waiting(stream.try_read(&mut [0])),
            Stream::Tls(stream) => tls_is_quiet(stream),
        }
    }
}

fn is_waiting(read: io::Result<usize>) -> bool {
    matches!(read, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// Reads without a waker, because no task waits for this connection; the next exchange brings its own.
fn tls_is_quiet(stream: &mut TlsStream<Records>) -> bool {
    let (records, session) = stream.get_mut();
    let mut space = [const { MaybeUninit::uninit() }; MAX_WHILE_IDLE];
    let mut came = ReadBuf::uninit(&mut space);
    let rest = loop {
        match records.try_read(&mut came) {
            Ok(1..) if came.remaining() > 0 => {}
            rest => break rest,
        }
    };
    let mut unread = came.filled();
    while !unread.is_empty() {
        if !matches!(session.read_tls(&mut unread), Ok(1..)) || session.process_new_packets().is_err() {
            return false;
        }
    }
    // Plaintext received with the last answer waits in the session; so does the peer's close_notify.
    let nothing = session.reader().into_first_chunk();
    is_waiting(rest)
        && records.is_whole()
        && nothing.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

/// A client's connection.
pub(crate) trait ClientSocket: AsyncRead + AsyncWrite + Unpin + Send + 'static {
    /// Resolves when a client that has stopped sending has also left. With TLS it sends `close_notify` when it stops
    /// sending, and closes the connection when it leaves. Without TLS the two cannot be told apart, and the client is
    /// assumed to listen.
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
                // The end, or bytes after close_notify, which are ignored.
                _ => return Poll::Ready(()),
            }
        }
    }
}
