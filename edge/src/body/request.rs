//! [`RequestBody`]: a client's body over either protocol. It is read on demand, piece by piece, never ahead of its
//! consumer.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};

use crate::body::h2::receiving::Receiving;
use crate::body::upload::ClientFault;

/// The client's side of an HTTP/1.1 exchange.
pub(crate) trait Client: Send + Sync {
    /// The next frame of the request's body.
    fn poll_frame(&self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ClientFault>>>;
    /// Whether the body was read to its end.
    fn is_end(&self) -> bool;
    /// The bytes still to come, if known.
    fn size_hint(&self) -> SizeHint;
    /// Passes an informational answer on.
    fn inform(&self, status: StatusCode, headers: &HeaderMap);
    /// Resolves when the client has read enough of its output to leave room for an informational answer.
    fn poll_room(&self, context: &mut Context<'_>) -> Poll<()>;
}

/// A request's body.
pub(crate) struct RequestBody {
    source: Source,
    /// No more data will come; the source need not be polled.
    ended: bool,
    /// Counts received bytes, if requested.
    received: Option<Arc<AtomicU64>>,
}

enum Source {
    Http1(Arc<dyn Client>),
    Http2(Receiving),
}

impl RequestBody {
    /// `ended`: there is no body.
    pub(crate) fn http1(client: Arc<dyn Client>, ended: bool) -> Self {
        Self { source: Source::Http1(client), ended, received: None }
    }

    pub(crate) fn http2(body: Receiving) -> Self {
        let ended = body.is_end();
        Self { source: Source::Http2(body), ended, received: None }
    }

    /// Counts the bytes received from now on; `None` if there is no body.
    pub(crate) fn listen(&mut self) -> Option<Arc<AtomicU64>> {
        if !self.is_end_stream() {
            self.received = Some(Arc::default());
        }
        self.received.clone()
    }

    /// Passes an informational answer on.
    pub(crate) fn inform(&self, status: StatusCode, headers: &HeaderMap) {
        match &self.source {
            Source::Http1(client) => client.inform(status, headers),
            Source::Http2(body) => body.inform(status, headers),
        }
    }

    /// Resolves when there is room for an informational answer. HTTP/2 queues them even if the client does not read;
    /// their limited number bounds the queue.
    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        match &self.source {
            Source::Http1(client) => client.poll_room(context),
            Source::Http2(_) => Poll::Ready(()),
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = ClientFault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientFault>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let polled = match &mut self.source {
            Source::Http1(client) => client.poll_frame(context),
            Source::Http2(body) => body.poll_frame(context),
        };
        if let (Some(received), Poll::Ready(Some(Ok(frame)))) = (&self.received, &polled) {
            let length = frame.data_ref().map_or(0, Bytes::len);
            received.fetch_add(u64::try_from(length).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.ended
            || match &self.source {
                Source::Http1(client) => client.is_end(),
                Source::Http2(body) => body.is_end(),
            }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            _ if self.ended => SizeHint::with_exact(0),
            Source::Http1(client) => client.size_hint(),
            Source::Http2(body) => body.size_hint(),
        }
    }
}

impl std::fmt::Debug for RequestBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let source = match &self.source {
            Source::Http1(_) => "Http1",
            Source::Http2(_) => "Http2",
        };
        f.debug_tuple("RequestBody").field(&source).finish()
    }
}
