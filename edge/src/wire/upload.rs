//! [`Upload`]: what the edge sends to an upstream. A client's body passes frame by frame, cut off past its limit; a client's
//! fault is told apart from the upstream's. Where another task sends the body (HTTP/2), its progress is published, so that
//! the first-byte budget starts when the request is fully sent.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, StatusCode};
use http_body::{Body, Frame, SizeHint};
use tokio::time::{Duration, Instant, timeout};

use super::headers::claims_identity;
use super::incoming::RequestBody;
use super::trailers;

/// A body to an upstream.
#[derive(Debug)]
pub(crate) struct Upload {
    source: Source,
    /// What the limit leaves.
    left: Option<u64>,
    /// A frame was taken, so that the body cannot be sent a second time.
    begun: bool,
    news: Option<News>,
}

#[derive(Debug)]
enum Source {
    /// None, or one the edge made itself.
    Full(Bytes),
    /// A client's.
    Client(RequestBody),
}

/// How far a body is, for whoever waits for the answer.
pub(crate) type News = Arc<Mutex<Progress>>;

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

impl Upload {
    /// A client's body, cut off past `limit`.
    pub(crate) fn client(body: RequestBody, limit: Option<usize>) -> Self {
        let left = limit.map(|limit| u64::try_from(limit).unwrap_or(u64::MAX));
        Self { source: Source::Client(body), left, begun: false, news: None }
    }

    /// A body of the edge's own.
    pub(crate) const fn full(bytes: Bytes) -> Self {
        Self { source: Source::Full(bytes), left: None, begun: false, news: None }
    }

    pub(crate) const fn empty() -> Self {
        Self::full(Bytes::new())
    }

    /// The body, which is somebody else's from now on.
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::empty())
    }

    /// Whether the request can still be sent to somebody else.
    pub(crate) const fn is_untouched(&self) -> bool {
        !self.begun
    }

    /// Sees a body that was announced as empty to its end, within `patience`: on HTTP/2 more may follow the head than it
    /// announced, and what is malformed must not reach an upstream as a whole request.
    pub(crate) async fn settle(&mut self, patience: Duration) -> Result<(), ClientFault> {
        if self.is_end_stream() || self.size_hint().exact() != Some(0) {
            return Ok(());
        }
        self.see_the_end(patience).await
    }

    #[cold]
    #[inline(never)]
    fn see_the_end(&mut self, patience: Duration) -> BoxFuture<'_, Result<(), ClientFault>> {
        Box::pin(async move {
            let end = async {
                while let Some(frame) = poll_fn(|context| Pin::new(&mut *self).poll_frame(context)).await {
                    frame?;
                }
                Ok(())
            };
            timeout(patience, end).await.map_err(|_| ClientFault::Stalled)??;
            // Nothing of it went to anybody.
            self.begun = false;
            Ok(())
        })
    }

    /// Passes an upstream's informational answer on to the client.
    pub(crate) fn inform(&self, status: StatusCode, headers: &HeaderMap) {
        if let Source::Client(body) = &self.source {
            body.inform(status, headers);
        }
    }

    /// Resolves when the client has room for an informational answer.
    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        match &self.source {
            Source::Client(body) => body.poll_room(context),
            Source::Full(_) => Poll::Ready(()),
        }
    }

    /// Publishes the progress from now on.
    pub(crate) fn publish(&mut self) -> News {
        let now = Instant::now();
        let first = if self.is_end_stream() { Progress::Sent(now) } else { Progress::Sending(now) };
        let news = Arc::new(Mutex::new(first));
        self.news = Some(Arc::clone(&news));
        news
    }

    fn tell(&self, progress: impl FnOnce(Instant) -> Progress) {
        if let Some(news) = &self.news {
            *news.lock().unwrap_or_else(PoisonError::into_inner) = progress(Instant::now());
        }
    }

    fn accept(&mut self, mut frame: Frame<Bytes>) -> Result<Frame<Bytes>, ClientFault> {
        if let Some(fields) = frame.trailers_mut() {
            if fields.keys().any(claims_identity) {
                return Err(ClientFault::IdentityTrailer);
            }
            trailers::strip(fields);
        }
        if let (Some(left), Some(data)) = (&mut self.left, frame.data_ref()) {
            let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
            *left = left.checked_sub(length).ok_or(ClientFault::TooLarge)?;
        }
        Ok(frame)
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = ClientFault;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientFault>>> {
        let polled = match &mut self.source {
            Source::Full(bytes) if bytes.is_empty() => Poll::Ready(None),
            Source::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Source::Client(body) => Pin::new(body).poll_frame(context),
        };
        match polled {
            Poll::Pending => {
                self.tell(Progress::AwaitingClient);
                Poll::Pending
            }
            Poll::Ready(None) => {
                self.tell(Progress::Sent);
                Poll::Ready(None)
            }
            Poll::Ready(Some(frame)) => {
                self.begun = true;
                let frame = frame.and_then(|frame| self.accept(frame));
                match &frame {
                    Err(fault) => self.tell(|_| Progress::Failed(*fault)),
                    Ok(_) if self.is_end_stream() => self.tell(Progress::Sent),
                    Ok(_) => self.tell(Progress::Sending),
                }
                Poll::Ready(Some(frame))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Full(bytes) => bytes.is_empty(),
            Source::Client(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Full(bytes) => SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or(u64::MAX)),
            Source::Client(body) => body.size_hint(),
        }
    }
}
