//! A connection to an upstream: plain, or with TLS. And what the edge knows of a client's socket beyond its bytes.

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

/// The most that an idle connection with TLS may bring between two looks at it: session tickets and new keys are a few
/// hundred bytes each.
const MAX_WHILE_IDLE: usize = 16 << 10;

/// A dialled connection. One that is dropped while an exchange is under way is reset: the system would keep its port for a
/// minute otherwise, and a client that gives requests up as fast as it makes them would use up all ports.
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

    /// An exchange begins, or is over.
    pub(crate) const fn set_under_way(&mut self, is_under_way: bool) {
        self.is_under_way = is_under_way;
    }

    fn tcp(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0.tcp(),
        }
    }

    /// Whether an idle connection is as the last answer left it: no byte of an answer came, no part of a record, and no end.
    /// A system call only when the reactor knows of something. With TLS, tickets and new keys are taken in and are nothing.
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

/// Nobody waits for this connection, so it is read without a waker: the next exchange brings its own.
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
    // Plaintext that came with the last answer waits in the session; so does the other side's goodbye.
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
