//! The edge's own questions to the foundation services. Anything but a whole, well-formed 200 is no answer, and no answer
//! is a 503: never an allow.

use bytes::Bytes;
use contract::Subject;
use contract::envelope::DataBody;
use http::header::{CONTENT_TYPE, HOST, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use telemetry::Span;

use super::named::Named;
use super::path::encode;
use super::refusal::Refusal;
use super::routes::Service;
use crate::Edge;

/// Whether the superadmin role is held, and if not, why.
#[derive(Debug, Deserialize)]
pub(crate) struct Superadmin {
    pub(crate) held: bool,
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) evidence: Value,
}

/// What a subject is to a company.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Membership {
    pub(crate) is_member: bool,
    pub(crate) is_active: bool,
}

/// Asks authz, fresh every time.
pub(crate) async fn superadmin(edge: &Edge, subject: &Subject, named: &Named) -> Result<Superadmin, Refusal> {
    let path = format!("/internal/authz/superadmin/{}", encode(subject.as_str()));
    ask(edge, Service::Authz, Method::GET, &path, Bytes::new(), named).await
}

/// Asks org.
pub(crate) async fn membership(
    edge: &Edge,
    company: &str,
    subject: &Subject,
    named: &Named,
) -> Result<Membership, Refusal> {
    let path =
        format!("/internal/org/companies/{}/members/by-kcsub/{}", encode(company), encode(subject.as_str()));
    ask(edge, Service::Org, Method::GET, &path, Bytes::new(), named).await
}

/// One question; `body` is JSON or empty.
pub(crate) async fn ask<T: DeserializeOwned>(
    edge: &Edge,
    service: Service,
    method: Method,
    path: &str,
    body: Bytes,
    named: &Named,
) -> Result<T, Refusal> {
    let no_answer = |reason| Refusal::Unavailable { dependency: service, reason };
    let (correlation, asking) = (&named.correlation, named.ask(&method, service.name()));
    let mut request = Request::new(());
    *request.method_mut() = method;
    *request.uri_mut() = path.parse::<Uri>().map_err(|_| no_answer("bad_question"))?;
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in
        [(HOST, edge.authority(service).host_header()), (super::CORRELATION, correlation.to_string())]
    {
        headers.insert(name, HeaderValue::from_str(&value).map_err(|_| no_answer("bad_question"))?);
    }
    named.mark(headers, asking.as_ref());
    // Most requests ask nothing, and need no room for it.
    let answered = Box::pin(edge.upstreams.ask(edge.places.service(service), request, body)).await;
    let (status, body) = answered
        .map_err(|failure| no_answer(failure.reason()))
        .inspect_err(|_| fail(asking.as_ref(), "no answer"))?;
    if status != StatusCode::OK {
        fail(asking.as_ref(), status.as_str());
        tracing::warn!(service = service.name(), %status, correlation_id = %correlation, "an internal question was not answered");
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
