//! Upstreams that speak HTTP/2 without TLS: a connection carries as many requests of its worker as the upstream and its
//! window allow; further requests open another.
//! `connection` is that connection and its pings, `call` one request, `answer` the answer's body, `paced` a socket
//! whose short frames leave room for other connections, `head_limit` the head size that the upstream accepts.

pub(crate) mod answer;
mod call;
pub(crate) mod connection;
mod head_limit;
mod paced;

use std::sync::PoisonError;

use http::header::{CONTENT_LENGTH, HOST, TE};
use http::{HeaderValue, Method, Request, Response, Uri, Version, uri};

use http_body::Body as _;

use crate::body::upload::{News, Progress, Upload};
use crate::http::headers::{is_of_one_hop, remove};
use crate::upstream::answer::AnswerBody;
use crate::upstream::client::{Failure, Lost, Outgoing, UpstreamClient, again, is_idempotent};
use crate::upstream::http2::call::{Call, Unanswered};
use crate::upstream::http2::connection::{Multiplexed, Slot, ping_patience};
use crate::upstream::target::UpstreamPermit;

impl UpstreamClient {
    /// Sends a request over HTTP/2: on an open connection with room for it, if there is one, otherwise on a new one.
    pub(crate) async fn send_h2c(
        &self,
        permit: UpstreamPermit,
        host: usize,
        outgoing: &mut Outgoing,
    ) -> Result<Response<AnswerBody>, Failure> {
        let kept = permit.host().and_then(|host| host.idle(self.worker)?.shared());
        let Some(slot) = kept else { return self.send_anew(permit, host, outgoing).await };
        // A connection closed in the meantime was sent nothing.
        let Some(slot) = slot.ready().await else { return self.send_anew(permit, host, outgoing).await };
        let lost = match self.multiplex(slot, permit, host, outgoing, true).await {
            Ok(response) => return Ok(response),
            Err(lost) => lost,
        };
        let (permit, upload) = again(lost, outgoing.request.method())?;
        outgoing.upload = upload;
        self.send_anew(permit, host, outgoing).await
    }

    /// Sends the first request on a new connection.
    pub(crate) async fn send_first(
        &self,
        connection: Multiplexed,
        permit: UpstreamPermit,
        host: usize,
        outgoing: &mut Outgoing,
    ) -> Result<Response<AnswerBody>, Failure> {
        let slot = connection.first_slot().ready().await.ok_or(Failure::Reset)?;
        if let Some(idle) = permit.host().and_then(|host| host.idle(self.worker)) {
            idle.share(connection);
        }
        let answered = self.multiplex(slot, permit, host, outgoing, false).await;
        answered.map_err(|lost| lost.failure)
    }

    async fn multiplex(
        &self,
        slot: Slot,
        permit: UpstreamPermit,
        host: usize,
        outgoing: &mut Outgoing,
        used_before: bool,
    ) -> Result<Response<AnswerBody>, Lost> {
        let mut upload = outgoing.upload.take();
        let news = upload.publish();
        // Keep a copy of a request that may be retried; a request with a body is never retried.
        let may_repeat = used_before && upload.is_end_stream() && is_idempotent(outgoing.request.method());
        let request =
            if may_repeat { outgoing.request.clone() } else { std::mem::take(&mut outgoing.request) };
        let request = over_http2(request, &upload);
        if !slot.busy.head_limit().takes(&request, ping_patience(&self.budgets)).await {
            return Err(Lost { failure: Failure::HeadTooLarge, permit, upload: None });
        }
        let begun = Call::begin(slot, request, upload);
        let answered = match begun {
            Ok(call) => call.answered(&news, &self.budgets).await,
            Err(error) => Err(Unanswered::Stream(error)),
        };
        let unanswered = match answered {
            Ok(response) => {
                permit.upstream.note(host, true);
                return Ok(response.map(|answer| AnswerBody::stream(answer, permit, self.budgets)));
            }
            Err(unanswered) => unanswered,
        };
        let may_repeat = may_repeat && unanswered.is_the_connections();
        let failure = unanswered.failure(&news);
        if failure.is_the_hosts() && !may_repeat {
            permit.upstream.note(host, false);
        }
        Err(Lost { failure, permit, upload: may_repeat.then(Upload::empty) })
    }
}

/// Moves the host into the target, and the length into a header if it is known; the rest stays.
fn over_http2(mut request: Request<()>, upload: &Upload) -> Request<()> {
    let headers = request.headers_mut();
    let host = headers.remove(HOST);
    remove(headers, |name| is_of_one_hop(name) && *name != TE);
    let length = upload.size_hint().exact();
    let silent = matches!(*request.method(), Method::GET | Method::HEAD | Method::DELETE | Method::OPTIONS);
    if let Some(length) = length.filter(|length| *length > 0 || !silent) {
        request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    let mut parts = std::mem::take(request.uri_mut()).into_parts();
    parts.scheme = Some(uri::Scheme::HTTP);
    parts.authority = host.and_then(|host| uri::Authority::try_from(host.as_bytes()).ok());
    *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
    *request.version_mut() = Version::HTTP_2;
    request
}

fn client_fault(news: &News) -> Option<Failure> {
    match *news.lock().unwrap_or_else(PoisonError::into_inner) {
        Progress::Failed(fault) => Some(Failure::Client(fault)),
        Progress::Sending(_) | Progress::AwaitingClient(_) | Progress::Sent(_) => None,
    }
}
