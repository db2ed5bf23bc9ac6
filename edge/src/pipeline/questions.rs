//! The gateway's own questions to the foundation services. Anything but a complete, well-formed 200 counts as no
//! answer, and no answer becomes a 503, never an allow.

use bearer::Claims;
use bytes::Bytes;
use contract::envelope::DataBody;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use telemetry::Span;

use crate::config::Service;
use crate::http::share::ClientKey;
use crate::metrics::ids::RequestIds;
use crate::pipeline::authenticate::Caller;
use crate::pipeline::handle::over_share;
use crate::pipeline::path::encode;
use crate::pipeline::refusal::{CONCURRENCY, Refusal};
use crate::pipeline::worker::Worker;
use crate::upstream::client::Failure;
use crate::upstream::target::Asker;

/// Whether the superadmin role is held, and if not, why.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Superadmin {
    pub(crate) held: bool,
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) evidence: Value,
    /// Whether the account may act at all: it exists, is enabled at the provider, and its lifecycle is active.
    #[serde(default)]
    pub(crate) account_active: bool,
}

/// The verified bearer that a question is about. The question carries it, and the service verifies it again.
#[derive(Clone, Copy)]
pub(crate) struct About<'a> {
    pub(crate) claims: &'a Claims,
    pub(crate) token: &'a [u8],
}

impl<'a> From<&'a Caller<'_>> for About<'a> {
    fn from(caller: &'a Caller<'_>) -> Self {
        Self { claims: &caller.claims, token: caller.token }
    }
}

/// Asks authz whether the subject is a superadmin, afresh for every request.
pub(crate) async fn superadmin(
    worker: &Worker,
    about: About<'_>,
    ids: &RequestIds,
) -> Result<Superadmin, Refusal> {
    let path = format!("/internal/authz/superadmin/{}", encode(about.claims.subject.as_str()));
    ask(worker, about, Question::get(Service::Authz, &path), ids).await
}

/// A question to a service; `body` is JSON or empty.
pub(crate) struct Question<'a> {
    pub(crate) service: Service,
    pub(crate) method: Method,
    pub(crate) path: &'a str,
    pub(crate) body: Bytes,
}

impl<'a> Question<'a> {
    const fn get(service: Service, path: &'a str) -> Self {
        Self { service, method: Method::GET, path, body: Bytes::new() }
    }
}

/// Asks one question about a bearer; questions count against the subject's own share.
pub(crate) async fn ask<T: DeserializeOwned>(
    worker: &Worker,
    about: About<'_>,
    question: Question<'_>,
    ids: &RequestIds,
) -> Result<T, Refusal> {
    let Question { service, method, path, body } = question;
    let no_answer = |reason| Refusal::Unavailable { dependency: service, reason };
    let (correlation, asking) = (&ids.correlation, ids.ask(&method, service.name()));
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = path.parse::<Uri>().map_err(|_| no_answer("bad_question"))?;
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in [
        (HOST, worker.config.addresses.service(service).host_header()),
        (crate::http::headers::CORRELATION, correlation.to_string()),
    ] {
        headers.insert(name, HeaderValue::from_str(&value).map_err(|_| no_answer("bad_question"))?);
    }
    let bearer = HeaderValue::from_maybe_shared(Bytes::from([b"Bearer ", about.token].concat()));
    headers.insert(AUTHORIZATION, bearer.map_err(|_| no_answer("bad_question"))?);
    ids.mark(headers, asking.as_ref());
    // Boxed, because most requests ask nothing and should not reserve space for it.
    let (upstream, asker) =
        (worker.upstreams.service(service), Asker::Question(ClientKey::subject(about.claims.subject_hash)));
    let answered = Box::pin(worker.client.ask(upstream, asker, request, body)).await;
    let (status, body) = answered
        .map_err(|failure| {
            if failure == Failure::OverShare {
                over_share(worker, CONCURRENCY)
            } else {
                no_answer(failure.reason())
            }
        })
        .inspect_err(|_| fail(asking.as_ref(), "no answer"))?;
    if status != StatusCode::OK {
        fail(asking.as_ref(), status.as_str());
        tracing::warn!(service = service.name(), %status, correlation_id = %correlation, "a service did not answer an internal question");
        return Err(no_answer("unexpected_status"));
    }
    let answer: DataBody<T> = serde_json::from_slice(&body).map_err(|_| no_answer("malformed_answer"))?;
    Ok(answer.data)
}

fn fail(asking: Option<&Span>, why: &str) {
    if let Some(span) = asking {
        span.fail(why.to_owned());
    }
}
