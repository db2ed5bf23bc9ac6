//! [`EdgeBody`]: the body of an answer to a client. An upstream's body is streamed frame by frame and never collected;
//! if it breaks off or stalls, the body fails, so that the client's stream is reset and never looks complete.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use crate::http::credit::SlowReader;
use crate::metrics::access::OpenRecord;
use crate::metrics::meter::InFlight;
use crate::response::pieces::Pieces;
use crate::upstream::answer::{AnswerBody, BodyError};
use crate::upstream::tunnel::Tunnel;

/// A body for a client, and the resources held until it is sent or dropped.
pub(crate) struct EdgeBody {
    source: Source,
    in_flight: Option<InFlight>,
    record: OpenRecord,
}

enum Source {
    Full(Bytes),
    Pieces(Box<Pieces>),
    Upstream(AnswerBody),
}

impl EdgeBody {
    pub(crate) const fn full(bytes: Bytes) -> Self {
        Self::of(Source::Full(bytes))
    }

    /// A body of several parts, sent in portions with pauses between.
    pub(crate) fn pieces(pieces: Vec<Bytes>) -> Self {
        Self::of(Source::Pieces(Box::new(Pieces::new(pieces))))
    }

    pub(crate) const fn empty() -> Self {
        Self::full(Bytes::new())
    }

    /// An upstream's answer.
    pub(crate) const fn upstream(answer: AnswerBody) -> Self {
        Self::of(Source::Upstream(answer))
    }

    /// Takes the tunnel, if this is one.
    pub(crate) fn take_tunnel(&mut self) -> Option<Tunnel> {
        let Source::Upstream(answer) = &mut self.source else { return None };
        let mut tunnel = answer.take_tunnel()?;
        tunnel.keep(self.in_flight.take(), std::mem::take(&mut self.record));
        Some(*tunnel)
    }

    #[cfg(test)]
    pub(crate) fn reason(&self) -> &str {
        self.record.reason()
    }

    /// Records that the answer was cut off because the client takes too little of it.
    #[cold]
    pub(crate) fn cut_off(&mut self, why: SlowReader) {
        self.record.broke_off(why.reason());
    }

    /// Records that the client takes nothing at the moment.
    pub(crate) fn stalled(&mut self, now: Instant) {
        if let Source::Upstream(answer) = &mut self.source {
            answer.stalled(now);
        }
    }

    /// Counts the request as in progress until this body is dropped.
    pub(crate) fn hold(&mut self, in_flight: Option<InFlight>) {
        self.in_flight = in_flight;
    }

    /// Attaches the access record, which is closed when this body is dropped.
    pub(crate) fn record(&mut self, record: OpenRecord) {
        self.record = record;
    }

    const fn of(source: Source) -> Self {
        Self { source, in_flight: None, record: OpenRecord::none() }
    }
}

impl Body for EdgeBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let polled = match &mut this.source {
            Source::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Source::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Source::Pieces(pieces) => pieces.poll(context).map(|part| part.map(|part| Ok(Frame::data(part)))),
            Source::Upstream(answer) => Pin::new(answer).poll_frame(context),
        };
        match &polled {
            Poll::Ready(Some(Ok(frame))) => this.record.sent(frame.data_ref().map_or(0, Bytes::len)),
            Poll::Ready(Some(Err(error))) => this.record.broke_off(error.reason()),
            Poll::Ready(None) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Full(bytes) => bytes.is_empty(),
            Source::Pieces(pieces) => pieces.is_end(),
            Source::Upstream(answer) => answer.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Full(bytes) => exactly(bytes.len()),
            Source::Pieces(pieces) => exactly(pieces.remaining()),
            Source::Upstream(answer) => answer.size_hint(),
        }
    }
}

fn exactly(length: usize) -> SizeHint {
    SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
}
