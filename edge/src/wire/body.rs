//! [`EdgeBody`]: what the edge sends to a client. An upstream's body passes frame by frame and is never collected; when
//! it breaks or falls silent the body fails, so that the client's stream is reset and never looks complete.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use super::alarm::Alarm;
use super::credit::SlowReader;
use super::h1::call::{Broken, Link};
use super::h2c::answer::Answer;
use super::lasting::Lasting;
use super::pieces::Pieces;
use super::place::Turn;
use super::tunnel::Tunnel;
use crate::config::Budgets;
use crate::meter::InFlight;
use crate::way::account::Open;

/// A body to a client, and what stays open until it is sent or dropped.
pub(crate) struct EdgeBody {
    source: Source,
    in_flight: Option<InFlight>,
    account: Open,
}

enum Source {
    Full(Bytes),
    Pieces(Box<Pieces>),
    /// The connection to an HTTP/1.1 upstream; none once its answer was read to its end.
    Link {
        link: Option<Box<Link>>,
        budgets: Budgets,
    },
    /// One stream of an HTTP/2 upstream.
    Stream(Box<Stream>),
    /// No body: another protocol, in both directions.
    Tunnel(Option<Box<Tunnel>>),
}

struct Stream {
    body: Answer,
    /// Kept until the end.
    turn: Turn,
    alarm: Alarm,
    lasting: Lasting,
    budgets: Budgets,
}

/// Why a body to a client broke off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error(transparent)]
    Link(#[from] Broken),
    #[error("the upstream reset the stream: {0}")]
    Stream(#[source] h2::Error),
    #[error("the upstream fell silent")]
    Idle,
}

impl BodyError {
    /// A stable word for the access log.
    const fn reason(&self) -> &'static str {
        match self {
            Self::Link(Broken::Client(_)) => "client_body",
            Self::Link(Broken::Idle) | Self::Idle => "stream_idle",
            Self::Link(Broken::Socket(_) | Broken::Short | Broken::Malformed(_)) | Self::Stream(_) => {
                "answer_broken"
            }
        }
    }
}

impl EdgeBody {
    pub(crate) const fn full(bytes: Bytes) -> Self {
        Self::of(Source::Full(bytes))
    }

    /// One body of several parts, given out in portions with pauses between.
    pub(crate) fn pieces(pieces: Vec<Bytes>) -> Self {
        Self::of(Source::Pieces(Box::new(Pieces::new(pieces))))
    }

    pub(crate) const fn empty() -> Self {
        Self::full(Bytes::new())
    }

    /// The answer on this link, which goes back to the pool once it is read to its end.
    pub(crate) fn link(link: Box<Link>, budgets: Budgets) -> Self {
        if link.is_done() {
            link.go_home();
            return Self::empty();
        }
        Self::of(Source::Link { link: Some(link), budgets })
    }

    /// The answer of an HTTP/2 upstream.
    pub(crate) fn stream(body: Answer, turn: Turn, budgets: Budgets) -> Self {
        let alarm = Alarm::at(Instant::now() + budgets.stream_idle);
        let lasting = Lasting::default();
        Self::of(Source::Stream(Box::new(Stream { body, turn, alarm, lasting, budgets })))
    }

    /// Another protocol.
    pub(crate) fn tunnel(tunnel: Tunnel) -> Self {
        Self::of(Source::Tunnel(Some(Box::new(tunnel))))
    }

    /// The tunnel that this is instead of a body.
    pub(crate) fn take_tunnel(&mut self) -> Option<Tunnel> {
        let Source::Tunnel(tunnel) = &mut self.source else { return None };
        let mut tunnel = tunnel.take()?;
        tunnel.keep(self.in_flight.take(), std::mem::take(&mut self.account));
        Some(*tunnel)
    }

    #[cfg(test)]
    pub(crate) fn reason(&self) -> &str {
        self.account.reason()
    }

    /// Nothing more is sent, because the client takes too little of it.
    #[cold]
    pub(crate) fn cut_off(&mut self, why: SlowReader) {
        self.account.broke_off(why.reason());
    }

    /// The client takes nothing of it at this moment.
    pub(crate) fn stalled(&mut self, now: Instant) {
        match &mut self.source {
            Source::Link { link: Some(link), .. } => link.stalled(now),
            Source::Stream(stream) => stream.lasting.stalled(Some(&mut stream.turn), now),
            Source::Link { link: None, .. } | Source::Full(_) | Source::Pieces(_) | Source::Tunnel(_) => {}
        }
    }

    /// Counts the request as in progress until this body is gone.
    pub(crate) fn hold(&mut self, in_flight: Option<InFlight>) {
        self.in_flight = in_flight;
    }

    /// Closes the account when this body is gone.
    pub(crate) fn account(&mut self, account: Open) {
        self.account = account;
    }

    const fn of(source: Source) -> Self {
        Self { source, in_flight: None, account: Open::none() }
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
            Source::Link { link, budgets } => poll_link(link, budgets, context),
            Source::Stream(stream) => stream.poll(context),
            Source::Tunnel(_) => Poll::Ready(None),
        };
        match &polled {
            Poll::Ready(Some(Ok(frame))) => this.account.sent(frame.data_ref().map_or(0, Bytes::len)),
            Poll::Ready(Some(Err(error))) => this.account.broke_off(error.reason()),
            Poll::Ready(None) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Full(bytes) => bytes.is_empty(),
            Source::Pieces(pieces) => pieces.is_end(),
            Source::Link { link, .. } => link.as_ref().is_none_or(|link| link.is_done()),
            Source::Stream(stream) => stream.body.is_end_stream(),
            Source::Tunnel(_) => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Full(bytes) => exactly(bytes.len()),
            Source::Pieces(pieces) => exactly(pieces.remaining()),
            Source::Link { link, .. } => {
                link.as_ref().map_or_else(|| SizeHint::with_exact(0), |link| link.size_hint())
            }
            Source::Stream(stream) => stream.body.size_hint(),
            Source::Tunnel(_) => SizeHint::with_exact(0),
        }
    }
}

fn exactly(length: usize) -> SizeHint {
    SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
}

fn poll_link(
    slot: &mut Option<Box<Link>>,
    budgets: &Budgets,
    context: &mut Context<'_>,
) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
    let Some(link) = slot else { return Poll::Ready(None) };
    let polled = link.poll_frame(context, budgets);
    match polled {
        Poll::Ready(Some(Ok(frame))) => {
            // The server does not ask again after the last byte of a known length.
            if link.is_done() {
                slot.take().into_iter().for_each(Link::go_home);
            }
            Poll::Ready(Some(Ok(frame)))
        }
        Poll::Ready(None) => {
            slot.take().into_iter().for_each(Link::go_home);
            Poll::Ready(None)
        }
        Poll::Ready(Some(Err(error))) => {
            *slot = None;
            Poll::Ready(Some(Err(error.into())))
        }
        Poll::Pending => Poll::Pending,
    }
}

impl Stream {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.lasting.moved();
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Stream)));
        }
        let Self { lasting, alarm, turn, budgets, .. } = self;
        let silence = lasting.poll_silence(alarm, Some(turn), budgets.stream_idle, context);
        silence.map(|()| Some(Err(BodyError::Idle)))
    }
}
