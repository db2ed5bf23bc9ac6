//! CORS: which origins may read answers. A preflight is answered before any other step; every answer, refusals
//! included, carries the headers for an allowed origin and none for any other.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, HeaderValue,
    ORIGIN, VARY,
};
use http::{HeaderMap, Method, Request, Response, StatusCode};

use crate::response::body::EdgeBody;

const ALLOWED_METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE");
const ALLOWED_HEADERS: HeaderValue = HeaderValue::from_static(
    "authorization, content-type, idempotency-key, if-match, if-none-match, traceparent, x-correlation-id",
);
/// Headers that browser code needs beyond the CORS-safelisted ones: the gateway's own, and those that the APIs of its
/// upstreams document. OPERATIONS.md lists them.
const EXPOSED_HEADERS: HeaderValue = HeaderValue::from_static(
    "allow, content-disposition, deprecation, etag, idempotency-replayed, link, location, ratelimit, ratelimit-policy, \
     retry-after, sunset, www-authenticate, x-correlation-id, x-result-truncated",
);
/// Ten minutes: long enough to save most preflights, short enough for a changed list to take effect.
const MAX_AGE: HeaderValue = HeaderValue::from_static("600");

/// The request's origin, if it may read answers.
pub(crate) fn allowed_origin(headers: &HeaderMap, allowed: &[String]) -> Option<HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    let text = origin.to_str().ok()?.to_ascii_lowercase();
    allowed.contains(&text).then(|| origin.clone())
}

/// Whether the request is a CORS preflight.
pub(crate) fn is_preflight<B>(request: &Request<B>) -> bool {
    let headers = request.headers();
    request.method() == Method::OPTIONS
        && headers.contains_key(ORIGIN)
        && headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Answers a preflight; [`mark`] adds the origin if it is allowed.
pub(crate) fn preflight(origin: Option<&HeaderValue>) -> Response<EdgeBody> {
    let mut response = Response::new(EdgeBody::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    if origin.is_some() {
        let headers = response.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, ALLOWED_METHODS);
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS);
        headers.insert(ACCESS_CONTROL_MAX_AGE, MAX_AGE);
    }
    response
}

/// Adds the CORS headers to an answer.
pub(crate) fn mark(headers: &mut HeaderMap, origin: Option<HeaderValue>) {
    headers.append(VARY, HeaderValue::from_static("Origin"));
    if let Some(origin) = origin {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED_HEADERS);
    }
}
