//! Builds the request that the upstream gets: the only file that writes request headers and paths. The client's bytes
//! stay unless a rule changes them; framing is rebuilt from the body.

use std::sync::Arc;

use bytes::Bytes;
use contract::CorrelationId;
use http::header::{COOKIE, HOST, HeaderValue, TE};
use http::{HeaderMap, Method, Request, Uri};
use http_body::Body as _;
use telemetry::Span;

use crate::body::upload::{ClientFault, Upload};
use crate::config::{Destination, OwnHosts};
use crate::http::headers::{Marks, strip_hop_by_hop};
use crate::metrics::ids::RequestIds;
use crate::pipeline::authorize::Authorized;
use crate::pipeline::forwarded;
use crate::pipeline::forwarded::Sender;
use crate::pipeline::guard::Guarded;
use crate::pipeline::refusal::Refusal;
use crate::pipeline::routes::Then;
use crate::upstream::client::Outgoing;
use crate::upstream::target::Upstream;

/// An outgoing request, and the state needed when its answer arrives.
pub(crate) struct Outbound {
    pub(crate) outgoing: Outgoing,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) to: Destination,
    pub(crate) method: Method,
    pub(crate) body_limit: Option<usize>,
    pub(crate) then: Then,
    ids: RequestIds,
}

impl Outbound {
    /// Rewrites the client's request.
    pub(crate) fn build(
        hosts: &OwnHosts,
        guarded: Guarded,
        authorized: Authorized,
    ) -> Result<Box<Self>, Refusal> {
        let Guarded { request, host, marks, upgrade, peer, behind_trusted_proxy, ids } = guarded;
        let Authorized { target, upstream, path_and_query, body_limit, then } = authorized;
        let (parts, body) = request.into_parts();
        let announced = body.size_hint().lower();
        if body_limit.is_some_and(|limit| u64::try_from(limit).is_ok_and(|limit| announced > limit)) {
            return Err(Refusal::Body { fault: ClientFault::TooLarge, limit: body_limit });
        }
        let from = Sender { peer, behind_trusted_proxy, hosts };
        let mut headers = rewrite(parts.headers, marks, host, &ids.correlation, from)?;
        let mut request = Request::new(());
        *request.method_mut() = parts.method.clone();
        if let Some(upgrade) = &upgrade {
            if upgrade.is_translated() {
                *request.method_mut() = Method::GET;
            }
            upgrade.write(&mut headers);
        }
        *request.uri_mut() = match path_and_query {
            Some(text) => text.parse::<Uri>().map_err(|_| Refusal::Internal("bad_outbound_path"))?,
            None => parts.uri,
        };
        *request.headers_mut() = headers;
        let upload = Upload::client(body, body_limit);
        let outgoing = Outgoing { request, upload, upgrade: upgrade.is_some() };
        Ok(Box::new(Self { outgoing, upstream, to: target, method: parts.method, body_limit, then, ids }))
    }

    /// Opens the span of the forwarded request, if it is recorded. With tracing on, the upstream gets the gateway's
    /// span as parent; with tracing off, the client's trace headers pass unchanged.
    pub(crate) fn trace(&mut self) -> Option<Span> {
        self.ids.span()?;
        let asking = self.ids.ask(&self.method, self.to.name());
        self.ids.mark(self.outgoing.request.headers_mut(), asking.as_ref());
        asking
    }
}

/// Rewrites the headers for the upstream.
pub(crate) fn rewrite(
    mut headers: HeaderMap,
    marks: Marks,
    host: HeaderValue,
    correlation: &CorrelationId,
    from: Sender<'_>,
) -> Result<HeaderMap, Refusal> {
    let trailers = marks.has(Marks::TE) && wants_trailers(&headers);
    if marks.has(Marks::ONE_HOP) {
        strip_hop_by_hop(&mut headers);
    }
    if marks.has(Marks::COOKIE) {
        join_cookies(&mut headers)?;
    }
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    let correlation = HeaderValue::from_str(correlation.as_str());
    headers.insert(
        crate::http::headers::CORRELATION,
        correlation.map_err(|_| Refusal::Internal("bad_outbound_header"))?,
    );
    forwarded::rewrite(&mut headers, marks, from, &host);
    headers.insert(HOST, host);
    Ok(headers)
}

/// Joins several `Cookie` fields into one, in order: HTTP/2 lets a client split them (RFC 9113, 8.2.3), and an HTTP/1.1
/// server may read only the first. The head's limit counts each field with its name, so the joined value is within that
/// limit.
fn join_cookies(headers: &mut HeaderMap) -> Result<(), Refusal> {
    let mut crumbs = headers.get_all(COOKIE).iter();
    let (Some(first), Some(second)) = (crumbs.next(), crumbs.next()) else { return Ok(()) };
    let mut joined = first.as_bytes().to_vec();
    for crumb in std::iter::once(second).chain(crumbs) {
        joined.extend_from_slice(b"; ");
        joined.extend_from_slice(crumb.as_bytes());
    }
    let joined = HeaderValue::from_maybe_shared(Bytes::from(joined));
    headers.insert(COOKIE, joined.map_err(|_| Refusal::Internal("bad_outbound_header"))?);
    Ok(())
}

/// Whether the client accepts trailers, the only part of `TE` that can be passed on.
fn wants_trailers(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(TE).iter().filter_map(|value| value.to_str().ok());
    values.any(|value| value.split(',').any(|item| item.trim().eq_ignore_ascii_case("trailers")))
}
