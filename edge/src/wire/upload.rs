//! [`Upload`]: what the edge sends to an upstream. A client's body passes frame by frame; its progress is published, so
//! that the first-byte budget starts when the request is fully sent, and a client's fault is not taken for the upstream's.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::sync::watch;
use tokio::time::Instant;

use super::headers::claims_identity;

/// A body to an upstream.
pub(crate) enum Upload {
    /// None, or one the edge made itself.
    Full(Bytes),
    /// A client's.
    Client(ClientBody),
}

/// How far a client's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// The last frame went to the upstream then.
    Sending(Instant),
    /// The upstream would take more, and the client has sent nothing since then.
    AwaitingClient(Instant),
    /// All of it is sent, since then.
    Sent(Instant),
    /// The client's fault; the request cannot be completed.
    Failed(ClientFault),
}

/// What a client did wrong in its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ClientFault {
    #[error("the request body broke off or is malformed")]
    Broken,
    #[error("the request body is too large")]
    TooLarge,
    #[error("a trailer claims an identity")]
    IdentityTrailer,
    #[error("the request body stopped arriving")]
    Stalled,
}

/// A client's body under way.
pub(crate) struct ClientBody {
    body: Incoming,
    left: Option<u64>,
    progress: watch::Sender<Progress>,
    last_frame: Instant,
}

impl Upload {
    /// A client's body, cut off past `limit`, and the news of its progress.
    pub(crate) fn client(body: Incoming, limit: Option<usize>) -> (Self, watch::Receiver<Progress>) {
        let now = Instant::now();
        let (progress, news) = watch::channel(Progress::Sending(now));
        let left = limit.map(|limit| u64::try_from(limit).unwrap_or(u64::MAX));
        (Self::Client(ClientBody { body, left, progress, last_frame: now }), news)
    }

    pub(crate) const fn empty() -> Self {
        Self::Full(Bytes::new())
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = ClientFault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientFault>>> {
        match &mut *self {
            Self::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Client(client) => client.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Full(bytes) => bytes.is_empty(),
            Self::Client(client) => client.body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Full(bytes) => SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or(u64::MAX)),
            Self::Client(client) => client.body.size_hint(),
        }
    }
}

impl ClientBody {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ClientFault>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        let frame = match polled {
            Poll::Pending => {
                self.progress.send_replace(Progress::AwaitingClient(self.last_frame));
                return Poll::Pending;
            }
            Poll::Ready(None) => {
                self.progress.send_replace(Progress::Sent(Instant::now()));
                return Poll::Ready(None);
            }
            Poll::Ready(Some(frame)) => {
                frame.map_err(|_| ClientFault::Broken).and_then(|frame| self.accept(frame))
            }
        };
        self.last_frame = Instant::now();
        self.progress.send_replace(match &frame {
            Err(fault) => Progress::Failed(*fault),
            Ok(_) if self.body.is_end_stream() => Progress::Sent(self.last_frame),
            Ok(_) => Progress::Sending(self.last_frame),
        });
        Poll::Ready(Some(frame))
    }

    fn accept(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, ClientFault> {
        if frame.trailers_ref().is_some_and(|trailers| trailers.keys().any(claims_identity)) {
            return Err(ClientFault::IdentityTrailer);
        }
        if let (Some(left), Some(data)) = (&mut self.left, frame.data_ref()) {
            let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
            *left = left.checked_sub(length).ok_or(ClientFault::TooLarge)?;
        }
        Ok(frame)
    }
}
