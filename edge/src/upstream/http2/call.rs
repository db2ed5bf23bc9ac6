//! [`Call`]: one request over HTTP/2 until its answer's head arrives. Another task sends the body, as fast as the
//! upstream opens its window.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::PoisonError;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::client::ResponseFuture;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use http_body::Body as _;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::body::upload::{ClientFault, News, Progress, Upload};
use crate::config::Budgets;
use crate::http::alarm::Alarm;
use crate::upstream::client::Failure;
use crate::upstream::http2::answer::Answer;
use crate::upstream::http2::client_fault;
use crate::upstream::http2::connection::{Busy, Sending, Slot, doubt_after, ping_patience};
use crate::upstream::informing::Informing;

/// A running request.
pub(crate) struct Call {
    answer: ResponseFuture,
    informing: Informing,
    /// Aborted when the exchange ends, sent or not: from then on it would read the next request.
    body: Option<AbortOnDropHandle<()>>,
    busy: Busy,
}

/// Why there is no answer.
pub(crate) enum Unanswered {
    Stream(h2::Error),
    Failure(Failure),
}

impl Unanswered {
    /// Whether the whole connection ended, not only the stream.
    pub(crate) fn is_the_connections(&self) -> bool {
        matches!(self, Self::Stream(error) if !error.is_reset())
    }

    pub(crate) fn failure(self, news: &News) -> Failure {
        match self {
            Self::Stream(error) => {
                tracing::debug!(%error, "an HTTP/2 upstream gave no answer");
                client_fault(news).unwrap_or(Failure::Reset)
            }
            Self::Failure(failure) => failure,
        }
    }
}

impl Call {
    pub(crate) fn begin(slot: Slot, request: Request<()>, upload: Upload) -> Result<Self, h2::Error> {
        let ended = upload.is_end_stream();
        let Slot { mut sender, busy } = slot;
        let (answer, stream) = sender.send_request(request, ended)?;
        let body =
            (!ended).then(|| AbortOnDropHandle::new(tokio::spawn(send_body(upload, stream, busy.sending()))));
        Ok(Self { answer, informing: Informing::default(), body, busy })
    }

    /// Waits for the answer as long as the request makes progress and, once it is sent, within the first-byte budget.
    /// Meanwhile the connection is pinged.
    pub(crate) async fn answered(
        mut self,
        news: &News,
        budgets: &Budgets,
    ) -> Result<Response<Answer>, Unanswered> {
        let mut watch = Watch::new(budgets);
        let answered = poll_fn(|context| match self.poll_answer(context) {
            Poll::Ready(answered) => Poll::Ready(answered),
            Poll::Pending => {
                watch.poll(&self.busy, news, context).map(|failure| Err(Unanswered::Failure(failure)))
            }
        });
        let unanswered = match answered.await {
            Ok(answered) => {
                let (head, stream) = answered.into_parts();
                let answer = Answer::new(stream, &head.headers, self.body, self.busy);
                return Ok(Response::from_parts(head, answer));
            }
            Err(unanswered) => unanswered,
        };
        match unanswered {
            // The connection may still answer other requests.
            Unanswered::Failure(Failure::FirstByteTimeout | Failure::BodyTimeout) => self.busy.retire(),
            Unanswered::Failure(Failure::BadAnswer) => self.busy.end(),
            Unanswered::Failure(_) | Unanswered::Stream(_) => {}
        }
        Err(unanswered)
    }

    fn poll_answer(&mut self, context: &mut Context<'_>) -> Poll<Result<Response<RecvStream>, Unanswered>> {
        // The client does not get informational answers over HTTP/2; they are counted all the same.
        while let Poll::Ready(Some(informed)) = self.answer.poll_informational(context) {
            let head = informed.map_err(Unanswered::Stream)?;
            self.informing.count(bytes_of(head.headers())).map_err(Unanswered::Failure)?;
        }
        Pin::new(&mut self.answer).poll(context).map_err(Unanswered::Stream)
    }
}

/// The size of the headers as HTTP/1.1 text.
fn bytes_of(headers: &HeaderMap) -> usize {
    const FIRST_LINE_AND_END: usize = "HTTP/1.1 103 \r\n\r\n".len();
    const COLON_AND_END: usize = ": \r\n".len();
    let lines = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + COLON_AND_END);
    lines.sum::<usize>() + FIRST_LINE_AND_END
}

/// The timers of an answer.
struct Watch<'a> {
    budgets: &'a Budgets,
    alarm: Alarm,
    /// When the connection was last pinged.
    doubted: Option<Instant>,
}

impl<'a> Watch<'a> {
    fn new(budgets: &'a Budgets) -> Self {
        Self { budgets, alarm: Alarm::at(Instant::now()), doubted: None }
    }

    /// Resolves when the time is over.
    fn poll(&mut self, connection: &Busy, news: &News, context: &mut Context<'_>) -> Poll<Failure> {
        loop {
            let progress = *news.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let (due, failure, waits_since) = match progress {
                Progress::Sending(last) => (last + self.budgets.body_idle, Failure::BodyTimeout, Some(last)),
                Progress::AwaitingClient(last) => {
                    (last + self.budgets.body_idle, Failure::Client(ClientFault::Stalled), None)
                }
                Progress::Sent(at) => (at + self.budgets.first_byte, Failure::FirstByteTimeout, Some(at)),
                Progress::Failed(fault) => return Poll::Ready(Failure::Client(fault)),
            };
            if due <= now {
                return Poll::Ready(failure);
            }
            // Another task sends the body, so this one checks again after the shorter budget.
            let mut look = due.min(now + self.budgets.body_idle.min(self.budgets.first_byte));
            if let Some(since) = waits_since {
                look = look.min(self.doubt(connection, since, now));
            }
            self.alarm.set(look);
            ready!(self.alarm.poll(context));
        }
    }

    /// Requests a ping when it is due; returns when the next one is.
    fn doubt(&mut self, connection: &Busy, since: Instant, now: Instant) -> Instant {
        let first = since + doubt_after(self.budgets);
        let next = self.doubted.map_or(first, |last| first.max(last + ping_patience(self.budgets)));
        if next > now {
            return next;
        }
        connection.doubt();
        self.doubted = Some(now);
        now + ping_patience(self.budgets)
    }
}

/// Sends the body to its end, reading no more of it than the upstream takes.
async fn send_body(mut upload: Upload, mut stream: SendStream<Bytes>, mut sending: Sending) {
    let sent = poll_fn(|context| poll_body(&mut upload, &mut stream, &mut sending, context)).await;
    if let Err(error) = sent {
        tracing::debug!(%error, "a request over HTTP/2 was not sent to its end");
    }
}

/// Why a body was not sent in full.
#[derive(Debug, thiserror::Error)]
enum Unsent {
    #[error("the upstream has reset the stream: {0}")]
    Reset(Reason),
    #[error("the upstream takes nothing more")]
    Closed,
    #[error(transparent)]
    Http2(#[from] h2::Error),
    #[error(transparent)]
    Client(#[from] ClientFault),
}

fn poll_body(
    upload: &mut Upload,
    stream: &mut SendStream<Bytes>,
    sending: &mut Sending,
    context: &mut Context<'_>,
) -> Poll<Result<(), Unsent>> {
    loop {
        // The capacity for the rest of a piece is requested as it is sent.
        stream.reserve_capacity(1);
        while stream.capacity() == 0 {
            let polled = stream.poll_capacity(context);
            sending.set_held_up(polled.is_pending());
            ready!(polled).ok_or(Unsent::Closed)??;
        }
        if let Poll::Ready(reason) = stream.poll_reset(context) {
            return Poll::Ready(Err(Unsent::Reset(reason?)));
        }
        match ready!(Pin::new(&mut *upload).poll_frame(context)) {
            None => return Poll::Ready(Ok(stream.send_data(Bytes::new(), true)?)),
            Some(Err(fault)) => {
                stream.send_reset(Reason::CANCEL);
                return Poll::Ready(Err(fault.into()));
            }
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => {
                    let last = upload.is_end_stream();
                    stream.send_data(data, last)?;
                    if last {
                        return Poll::Ready(Ok(()));
                    }
                }
                Err(frame) => {
                    // No more capacity is needed.
                    stream.reserve_capacity(0);
                    let trailers = frame.into_trailers().unwrap_or_default();
                    if !sending.takes_trailers(&trailers) {
                        let fault = upload.refuse_trailers();
                        stream.send_reset(Reason::CANCEL);
                        return Poll::Ready(Err(fault.into()));
                    }
                    return Poll::Ready(Ok(stream.send_trailers(trailers)?));
                }
            },
        }
    }
}
