//! [`EdgeBody`]: what the edge sends to a client. An upstream's body passes frame by frame and is never collected; when
//! it breaks or falls silent the body fails, so that the client's stream is reset and never looks complete.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use telemetry::InFlight;
use tokio::time::{Instant, Sleep};

use super::activity::Busy;
use super::pool::Lease;

/// A body to a client, and what stays open until it is sent or dropped.
pub(crate) struct EdgeBody {
    source: Source,
    in_flight: Option<InFlight>,
    busy: Option<Busy>,
}

enum Source {
    Full(Bytes),
    Streamed(Box<Streamed>),
}

/// Why a body to a client broke off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error("the upstream broke off: {0}")]
    Upstream(#[source] hyper::Error),
    #[error("the upstream fell silent")]
    Idle,
}

impl EdgeBody {
    pub(crate) const fn full(bytes: Bytes) -> Self {
        Self { source: Source::Full(bytes), in_flight: None, busy: None }
    }

    pub(crate) const fn empty() -> Self {
        Self::full(Bytes::new())
    }

    /// An upstream's body; the connection goes back to the pool once it is read to its end.
    pub(crate) fn streamed(body: Incoming, lease: Lease, longest_pause: Duration) -> Self {
        let pause = Box::pin(tokio::time::sleep(longest_pause));
        let streamed = Streamed { body, lease: Some(lease), pause, longest_pause, ended: false };
        Self { source: Source::Streamed(Box::new(streamed)), in_flight: None, busy: None }
    }

    /// Counts the request as in progress until this body is gone.
    pub(crate) fn hold(&mut self, in_flight: InFlight) {
        self.in_flight = Some(in_flight);
    }

    /// Keeps the client's connection busy until this body is gone.
    pub(crate) fn keep_busy(&mut self, busy: Busy) {
        self.busy = Some(busy);
    }
}

impl Body for EdgeBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut self.source {
            Source::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Source::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Source::Streamed(streamed) => streamed.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Full(bytes) => bytes.is_empty(),
            Source::Streamed(streamed) => streamed.ended || streamed.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Full(bytes) => SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or(u64::MAX)),
            Source::Streamed(streamed) => streamed.body.size_hint(),
        }
    }
}

struct Streamed {
    body: Incoming,
    lease: Option<Lease>,
    pause: Pin<Box<Sleep>>,
    longest_pause: Duration,
    ended: bool,
}

impl Streamed {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                self.pause.as_mut().reset(Instant::now() + self.longest_pause);
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                self.lease = None;
                Poll::Ready(Some(Err(BodyError::Upstream(error))))
            }
            Poll::Ready(None) => {
                self.ended = true;
                Poll::Ready(None)
            }
            Poll::Pending => self.pause.as_mut().poll(context).map(|()| {
                self.lease = None;
                Some(Err(BodyError::Idle))
            }),
        }
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        // The server does not ask again after the last byte of a known length, so the end is looked for here.
        if let Some(lease) = self.lease.take().filter(|_| self.ended || self.body.is_end_stream()) {
            lease.give_back();
        }
    }
}
