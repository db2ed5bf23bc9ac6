//! Builds the answer that the client gets: removes headers that belong to the inner hop or that only the platform may
//! set; framing is rebuilt from the body.

use contract::catalog::REVISION_HEADER;
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue, UPGRADE};
use http::{HeaderMap, Method, Response, StatusCode};

use crate::http::headers::strip_answer;
use crate::pipeline::upgrade;
use crate::response::body::EdgeBody;

const REVISION: HeaderName = HeaderName::from_static(REVISION_HEADER);

/// Cleans an upstream's answer to a request of `method`, and returns the catalog revision it names.
pub(crate) fn clean(method: &Method, response: &mut Response<EdgeBody>) -> Option<i64> {
    let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let is_not_modified = response.status() == StatusCode::NOT_MODIFIED;
    let without_body = *method == Method::HEAD || is_not_modified;
    let headers = response.headers_mut();
    let length = without_body.then(|| announced_length(headers)).flatten();
    // Frameworks state the length of the 304 itself, and only that of the 200 may be stated (RFC 9110, 8.6).
    let length = length.filter(|length| !(is_not_modified && *length == 0));
    let revision = headers.remove(REVISION);
    let protocol = switches.then(|| headers.remove(UPGRADE)).flatten();
    strip_answer(headers);
    if switches {
        upgrade::agree(headers, protocol);
    }
    if let Some(length) = length {
        // No body follows, so only this header states how long it would be.
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    revision?.to_str().ok()?.parse().ok()
}

fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
