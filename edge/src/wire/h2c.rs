//! Upstreams that speak HTTP/2 without TLS: one connection for each worker carries all requests of that worker.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::PoisonError;
use std::task::{Poll, ready};

use http::header::HOST;
use http::{Request, Response, Uri, Version, uri};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::time::{Instant, timeout};

use super::alarm::Alarm;
use super::body::EdgeBody;
use super::place::Turn;
use super::upload::{ClientFault, News, Progress, Upload};
use super::upstream::{Failure, Upstreams, connect};

/// What one stream may have under way towards the edge; the client's own window is what holds an answer back.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 4 << 20;

impl Upstreams {
    /// The answer to a request over HTTP/2.
    pub(super) async fn send_h2c(
        &self,
        turn: Turn,
        host: usize,
        request: Request<()>,
        mut upload: Upload,
    ) -> Result<Response<EdgeBody>, Failure> {
        let news = upload.publish();
        let mut request = over_http2(request).map(|()| upload);
        // A connection that was closed meanwhile hands the request back; nothing of it was sent.
        for _ in 0..2 {
            let mut sender = self.sender(&turn, host).await?;
            let sent = sender.try_send_request(request);
            match within(sent, &news, self.budgets.body_idle, self.budgets.first_byte).await {
                Ok(Ok(response)) => {
                    turn.place.note(host, true);
                    return Ok(response.map(|body| EdgeBody::stream(body, turn, self.budgets)));
                }
                Ok(Err(mut error)) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => {
                        return Err(self.failed(&turn, host, client_fault(&news).unwrap_or(Failure::Reset)));
                    }
                },
                Err(failure) => return Err(self.failed(&turn, host, failure)),
            }
        }
        Err(self.failed(&turn, host, Failure::Reset))
    }

    fn failed(&self, turn: &Turn, host: usize, failure: Failure) -> Failure {
        if !matches!(failure, Failure::Client(_)) {
            turn.place.note(host, false);
        }
        tracing::trace!(worker = self.worker, %failure, "an HTTP/2 upstream failed");
        failure
    }

    async fn sender(&self, turn: &Turn, host: usize) -> Result<SendRequest<Upload>, Failure> {
        let found = turn.host().ok_or(Failure::DialFailed)?;
        let kept = found.shelf(self.worker).ok_or(Failure::DialFailed)?;
        if let Some(sender) = kept.shared() {
            return Ok(sender);
        }
        let dialled = async {
            let stream = connect(&found.authority).await?;
            let mut builder = Builder::new(TokioExecutor::new());
            builder
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW);
            builder.handshake(TokioIo::new(stream)).await.map_err(|_| Failure::DialFailed)
        };
        let dialled = timeout(self.budgets.dial, dialled).await.unwrap_or(Err(Failure::DialTimeout));
        let (sender, connection) = dialled.inspect_err(|_| turn.place.note(host, false))?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "an HTTP/2 upstream connection ended");
            }
        });
        kept.dialled();
        kept.share(sender.clone());
        Ok(sender)
    }
}

/// The host stands in the target, the rest is the same.
fn over_http2(mut request: Request<()>) -> Request<()> {
    let host = request.headers_mut().remove(HOST);
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme = Some(uri::Scheme::HTTP);
    parts.authority = host.and_then(|host| uri::Authority::try_from(host.as_bytes()).ok());
    *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
    *request.version_mut() = Version::HTTP_2;
    request
}

/// Waits as long as the request makes progress and, once it is sent, for the first-byte budget.
async fn within<F: Future>(
    answer: F,
    news: &News,
    body_idle: std::time::Duration,
    first_byte: std::time::Duration,
) -> Result<F::Output, Failure> {
    let mut answer = pin!(answer);
    let mut alarm = Alarm::at(Instant::now() + body_idle.min(first_byte));
    poll_fn(|context| {
        if let Poll::Ready(answer) = answer.as_mut().poll(context) {
            return Poll::Ready(Ok(answer));
        }
        loop {
            let progress = *news.lock().unwrap_or_else(PoisonError::into_inner);
            let due = match progress {
                Progress::Sending(last) | Progress::AwaitingClient(last) => last + body_idle,
                Progress::Sent(at) => at + first_byte,
                Progress::Failed(fault) => return Poll::Ready(Err(Failure::Client(fault))),
            };
            // Another task sends the body, so this one looks again when the shorter time is over.
            let now = Instant::now();
            if due <= now {
                return Poll::Ready(Err(match progress {
                    Progress::Sending(_) => Failure::BodyTimeout,
                    Progress::AwaitingClient(_) => Failure::Client(ClientFault::Stalled),
                    Progress::Sent(_) | Progress::Failed(_) => Failure::FirstByteTimeout,
                }));
            }
            alarm.set(due.min(now + body_idle.min(first_byte)));
            ready!(alarm.poll(context));
        }
    })
    .await
}

fn client_fault(news: &News) -> Option<Failure> {
    match *news.lock().unwrap_or_else(PoisonError::into_inner) {
        Progress::Failed(fault) => Some(Failure::Client(fault)),
        Progress::Sending(_) | Progress::AwaitingClient(_) | Progress::Sent(_) => None,
    }
}
