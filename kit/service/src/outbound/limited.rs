//! Limits on what is read from a receiver, besides its body. hyper limits each head, but not the number of interim ones
//! (1xx), and rustls does not limit session tickets, which cost more than they weigh; a receiver that sent either
//! without end would be read at line speed until the time limit.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The bytes that may still be read; shared with the stream that it limits.
#[derive(Clone)]
pub(super) struct ReadLimit(Arc<AtomicUsize>);

/// More bytes than the limit arrived.
#[derive(Debug, thiserror::Error)]
#[error("more was sent than a response may have before its body and around it")]
pub(super) struct TooMuch;

impl ReadLimit {
    pub(super) fn new(bytes: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(bytes)))
    }

    /// Lifts the limit.
    pub(super) fn lift(&self) {
        self.0.store(usize::MAX, Ordering::Relaxed);
    }

    fn take(&self, bytes: usize) -> io::Result<()> {
        let left = self.0.load(Ordering::Relaxed);
        if left < usize::MAX {
            let left = left.checked_sub(bytes).ok_or_else(|| io::Error::other(TooMuch))?;
            self.0.store(left, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// A stream whose reading fails when a [`ReadLimit`] is exceeded.
pub(super) struct Limited<T> {
    pub(super) stream: T,
    pub(super) limit: ReadLimit,
}

impl<T: AsyncRead + Unpin> AsyncRead for Limited<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        Poll::Ready(self.limit.take(buffer.filled().len() - before))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Limited<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
