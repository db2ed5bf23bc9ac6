//! [`Through`]: a stream as the client's end of a tunnel (RFC 8441).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use h2::{RecvStream, SendStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The maximum copied into one frame.
const MAX_WRITTEN: usize = 16 << 10;

/// Both directions of a stream.
pub(crate) struct Through {
    from: RecvStream,
    /// Received, but not read yet.
    unread: Bytes,
    to: SendStream<Bytes>,
}

impl Through {
    pub(crate) const fn new(from: RecvStream, to: SendStream<Bytes>) -> Self {
        Self { from, unread: Bytes::new(), to }
    }
}

impl AsyncRead for Through {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.unread.is_empty() {
            match ready!(self.from.poll_data(context)) {
                Some(Ok(data)) => self.unread = data,
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => return Poll::Ready(Ok(())),
            }
        }
        let length = self.unread.len().min(buffer.remaining());
        buffer.put_slice(self.unread.get(..length).unwrap_or_default());
        self.unread.advance(length);
        // A stream closed in the meantime has no window to open.
        let _opened = self.from.flow_control().release_capacity(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Through {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wanted = bytes.len().min(MAX_WRITTEN);
        if wanted == 0 {
            return Poll::Ready(Ok(0));
        }
        self.to.reserve_capacity(wanted);
        while self.to.capacity() == 0 {
            match ready!(self.to.poll_capacity(context)) {
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                None => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
            }
        }
        let length = wanted.min(self.to.capacity());
        let data = Bytes::copy_from_slice(bytes.get(..length).unwrap_or_default());
        self.to.send_data(data, false).map_err(io::Error::other)?;
        Poll::Ready(Ok(length))
    }

    /// Nothing to do: the connection's own task sends what was written.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends the stream; called once.
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.to.send_data(Bytes::new(), true).map_err(io::Error::other))
    }
}
