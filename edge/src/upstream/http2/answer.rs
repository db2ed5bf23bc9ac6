//! [`Answer`]: the body of an answer over HTTP/2. Reading opens its stream's window, so that nothing is read ahead of
//! the client.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use tokio_util::task::AbortOnDropHandle;

use crate::body::h2::receiving::announced_length;
use crate::upstream::http2::connection::Busy;

/// A body, and the task that is still sending the request's.
pub(crate) struct Answer {
    stream: RecvStream,
    /// The bytes still to come, if the upstream has announced the length.
    left: Option<u64>,
    _body: Option<AbortOnDropHandle<()>>,
    _busy: Busy,
}

impl Answer {
    pub(crate) fn new(
        stream: RecvStream,
        headers: &HeaderMap,
        body: Option<AbortOnDropHandle<()>>,
        busy: Busy,
    ) -> Self {
        let left = if stream.is_end_stream() { Some(0) } else { announced_length(headers) };
        Self { stream, left, _body: body, _busy: busy }
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = h2::Error;

    /// A stream that ends early is an error, even after a reset with `NO_ERROR`.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        while let Some(data) = ready!(self.stream.poll_data(context)?) {
            if data.is_empty() {
                continue;
            }
            let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
            self.left = self.left.map(|left| left.saturating_sub(length));
            // A stream closed in the meantime has no window to open.
            let _opened = self.stream.flow_control().release_capacity(data.len());
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        let trailers = ready!(self.stream.poll_trailers(context))?;
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::new, SizeHint::with_exact)
    }
}
