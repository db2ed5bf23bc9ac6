//! [`Paced`]: an upstream's socket that yields to the worker's other connections after a number of short frames; `h2`
//! itself reads as long as there is input. Also records the upstream's limit on the head size, which `h2` ignores.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::h2::frames::UpstreamFrames;
use crate::http::quantum::give_way;
use crate::upstream::http2::head_limit::HeadLimit;

/// Counts the frames read from a socket.
pub(super) struct Paced<S> {
    socket: S,
    frames: UpstreamFrames,
    head_limit: Arc<HeadLimit>,
    pausing: bool,
}

impl<S> Paced<S> {
    pub(super) const fn new(socket: S, head_limit: Arc<HeadLimit>) -> Self {
        Self { socket, frames: UpstreamFrames::new(), head_limit, pausing: false }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.pausing) {
            give_way(context);
            return Poll::Pending;
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(context, buffer);
        let this = &mut *self;
        let bytes = buffer.filled().get(before..).unwrap_or_default();
        this.pausing = this.frames.receive(bytes, |limit| this.head_limit.announced(limit));
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
