//! [`AnswerBody`]: the body of an upstream's answer, streamed frame by frame. A body that breaks off or stalls yields
//! an error, so that a truncated answer never looks complete.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::time::Instant;

use crate::config::Budgets;
use crate::http::alarm::Alarm;
use crate::http::quantum::Quantum;
use crate::upstream::http1::{Broken, Link};
use crate::upstream::http2::answer::Answer;
use crate::upstream::lasting::Lasting;
use crate::upstream::target::UpstreamPermit;
use crate::upstream::tunnel::Tunnel;

/// The body of an upstream's answer, or a tunnel.
pub(crate) enum AnswerBody {
    /// The connection to an HTTP/1.1 upstream; `None` once its answer was read to the end.
    Link { link: Option<Box<Link>>, budgets: Budgets },
    /// One stream of an HTTP/2 upstream.
    Stream(Box<Stream>),
    /// No body: another protocol in both directions.
    Tunnel(Option<Box<Tunnel>>),
}

/// The rest of an answer on its HTTP/2 stream.
pub(crate) struct Stream {
    body: Answer,
    /// Held until the end of the answer.
    permit: UpstreamPermit,
    alarm: Alarm,
    lasting: Lasting,
    quantum: Quantum,
    budgets: Budgets,
}

/// Why a body to a client broke off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error(transparent)]
    Link(#[from] Broken),
    #[error("the upstream reset the stream: {0}")]
    Stream(#[source] h2::Error),
    #[error("the upstream sent nothing for too long")]
    Idle,
}

impl BodyError {
    /// A stable word for the access log.
    pub(crate) const fn reason(&self) -> &'static str {
        match self {
            Self::Link(Broken::Client(_)) => "client_body",
            Self::Link(Broken::Idle) | Self::Idle => "stream_idle",
            Self::Link(Broken::Socket(_) | Broken::Short | Broken::Malformed(_)) | Self::Stream(_) => {
                "answer_broken"
            }
        }
    }
}

impl AnswerBody {
    /// The answer on this link, which returns to the pool once the answer is read to its end.
    pub(crate) fn link(link: Box<Link>, budgets: Budgets) -> Self {
        if link.is_done() {
            link.go_home();
            return Self::Link { link: None, budgets };
        }
        Self::Link { link: Some(link), budgets }
    }

    /// The answer of an HTTP/2 upstream.
    pub(crate) fn stream(body: Answer, permit: UpstreamPermit, budgets: Budgets) -> Self {
        let alarm = Alarm::at(Instant::now() + budgets.stream_idle);
        let lasting = Lasting::default();
        Self::Stream(Box::new(Stream { body, permit, alarm, lasting, quantum: Quantum::new(), budgets }))
    }

    /// A tunnel instead of a body.
    pub(crate) fn tunnel(tunnel: Tunnel) -> Self {
        Self::Tunnel(Some(Box::new(tunnel)))
    }

    /// Takes the tunnel, if this is one.
    pub(crate) fn take_tunnel(&mut self) -> Option<Box<Tunnel>> {
        let Self::Tunnel(tunnel) = self else { return None };
        tunnel.take()
    }

    /// Records that the client takes nothing at the moment.
    pub(crate) fn stalled(&mut self, now: Instant) {
        match self {
            Self::Link { link: Some(link), .. } => link.stalled(now),
            Self::Stream(stream) => stream.lasting.stalled(Some(&mut stream.permit), now),
            Self::Link { link: None, .. } | Self::Tunnel(_) => {}
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        match &mut *self {
            Self::Link { link, budgets } => poll_link(link, budgets, context),
            Self::Stream(stream) => stream.poll(context),
            Self::Tunnel(_) => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Link { link, .. } => link.as_ref().is_none_or(|link| link.is_done()),
            Self::Stream(stream) => stream.body.is_end_stream(),
            Self::Tunnel(_) => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Link { link, .. } => {
                link.as_ref().map_or_else(|| SizeHint::with_exact(0), |link| link.size_hint())
            }
            Self::Stream(stream) => stream.body.size_hint(),
            Self::Tunnel(_) => SizeHint::with_exact(0),
        }
    }
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
            // The server does not poll again after the last byte of a body of known length.
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
        ready!(self.quantum.poll_left(context));
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            self.lasting.moved();
            if let Some(Ok(frame)) = &frame {
                self.quantum.spend(frame.data_ref().map_or(0, Bytes::len));
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyError::Stream)));
        }
        let Self { lasting, alarm, permit, budgets, .. } = self;
        let silence = lasting.poll_silence(alarm, Some(permit), budgets.stream_idle, context);
        silence.map(|()| Some(Err(BodyError::Idle)))
    }
}
