//! The answer as the client gets it: what belongs to the inner hop, or is the platform's alone to say, is removed; framing
//! is rebuilt from the body.

use contract::catalog::REVISION_HEADER;
use http::header::{CONTENT_LENGTH, HeaderName, HeaderValue, UPGRADE};
use http::{HeaderMap, Method, Response, StatusCode};

use crate::http::headers::strip_answer;
use crate::pipeline::upgrade;
use crate::response::body::EdgeBody;

const REVISION: HeaderName = HeaderName::from_static(REVISION_HEADER);

/// Cleans an upstream's answer to a request of `method`, and yields the catalog revision it names.
pub(crate) fn clean(method: &Method, response: &mut Response<EdgeBody>) -> Option<i64> {
    let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
    let without_body = *method == Method::HEAD || response.status() == StatusCode::NOT_MODIFIED;
    let headers = response.headers_mut();
    let length = without_body.then(|| announced_length(headers)).flatten();
    let revision = headers.remove(REVISION);
    let protocol = switches.then(|| headers.remove(UPGRADE)).flatten();
    strip_answer(headers);
    if switches {
        upgrade::agree(headers, protocol);
    }
    if let Some(length) = length {
        // Nothing follows, so the length is the only thing that says how long the body would be.
        headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    }
    revision?.to_str().ok()?.parse().ok()
}

fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
