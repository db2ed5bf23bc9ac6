//! State kept for a request until its answer ends: ids, origin, metrics, and the access record, which is closed after
//! the answer's last byte.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use bearer::Claims;
use http::header::STRICT_TRANSPORT_SECURITY;
use http::{HeaderValue, Method, Request, Response};
use telemetry::{ABANDONED, ABANDONED_STATUS, UNMATCHED};
use tokio::time::Instant;

use crate::body::request::RequestBody;
use crate::config::Destination;
use crate::http::headers::CORRELATION;
use crate::http::peer::{Peer, Scheme};
use crate::metrics::access::{AccessRecord, Forwarded, Log, OpenRecord};
use crate::metrics::ids::RequestIds;
use crate::metrics::meter::{InFlight, OBSERVED};
use crate::pipeline::authenticate::Caller;
use crate::pipeline::cors;
use crate::pipeline::rate_limit::Taken;
use crate::pipeline::refusal::Refusal;
use crate::pipeline::route::Route;
use crate::pipeline::worker::Worker;
use crate::response::body::EdgeBody;

/// One year, as is usual: a browser that returns later makes one request without TLS. Covers this host alone: its
/// subdomains may belong to others.
const FROM_NOW_ON: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// The result of a request.
struct Outcome {
    status: u16,
    elapsed: Duration,
    from_edge: bool,
    reason: Cow<'static, str>,
}

/// The request context.
pub(crate) struct RequestContext {
    pub(crate) ids: RequestIds,
    pub(crate) origin: Option<HeaderValue>,
    method: Method,
    pub(crate) began: Instant,
    in_flight: Option<InFlight>,
    label: Option<&'static str>,
    caller: Option<Arc<Claims>>,
    forwarded: Option<Forwarded>,
    taken: Option<Taken>,
    received: Option<Arc<AtomicU64>>,
    /// Where the access record is logged.
    log: Option<Log>,
    /// The answer carries `Strict-Transport-Security`.
    demands_tls: bool,
}

impl RequestContext {
    pub(crate) fn begin<B>(worker: &Worker, peer: Peer, request: &Request<B>) -> Self {
        let headers = request.headers();
        Self {
            ids: RequestIds::of(headers, worker.tracer.as_ref()),
            origin: cors::allowed_origin(headers, &worker.config.origins),
            method: request.method().clone(),
            began: Instant::now(),
            in_flight: worker.meter.begin(),
            label: None,
            caller: None,
            forwarded: None,
            taken: None,
            received: None,
            log: worker.access.clone(),
            demands_tls: peer.scheme == Scheme::Https && worker.config.hosts.is_public(),
        }
    }

    /// Counts the bytes of the request's body if the request is logged.
    pub(crate) fn listen(&mut self, body: &mut RequestBody) {
        if self.log.is_some() {
            self.received = body.listen();
        }
    }

    pub(crate) const fn method(&self) -> &Method {
        &self.method
    }

    pub(crate) const fn matched(&mut self, route: &Route) {
        self.label = Some(route.label);
    }

    pub(crate) fn called_by(&mut self, caller: &Caller<'_>) {
        self.caller = Some(Arc::clone(&caller.claims));
    }

    /// Records a rate limit's result; refuses if the limit is exceeded.
    pub(crate) fn limited(&mut self, worker: &Worker, taken: Option<Taken>) -> Result<(), Refusal> {
        self.taken = taken;
        let Some(refusal) = taken.and_then(Taken::refusal) else { return Ok(()) };
        worker.meter.tally.limited(taken.map_or("", |taken| taken.scope));
        Err(refusal)
    }

    /// Records what became of the request at its upstream.
    pub(crate) fn forwarded(&mut self, forwarded: Forwarded) {
        self.forwarded = Some(forwarded);
    }

    /// Finishes the request: renders the answer, marks it, counts it and opens its access record.
    pub(crate) fn finish(
        mut self,
        worker: &Worker,
        answered: Result<Response<EdgeBody>, Refusal>,
    ) -> Response<EdgeBody> {
        let refused = answered.as_ref().err();
        self.label = self.label.or_else(|| refused.and_then(Refusal::label));
        if let Some(refusal) = refused {
            worker.meter.refused(refusal.kind());
        }
        let wanted = self.wanted();
        let reason = refused.filter(|_| wanted).map_or(Cow::Borrowed(""), Refusal::reason);
        let from_edge = refused.is_some() || self.forwarded.is_none();
        let mut response = answered.unwrap_or_else(Refusal::render);
        let now = self.forwarded.as_ref().map_or_else(Instant::now, |forwarded| forwarded.at);
        let (status, elapsed) = (response.status().as_u16(), now.duration_since(self.began));
        if OBSERVED {
            self.count(worker, status, elapsed);
        }
        let headers = response.headers_mut();
        cors::mark(headers, self.origin.take());
        if self.demands_tls {
            headers.insert(STRICT_TRANSPORT_SECURITY, FROM_NOW_ON);
        }
        if let Some(taken) = self.taken {
            taken.mark(headers);
        }
        if let Ok(value) = HeaderValue::from_str(self.ids.correlation.as_str()) {
            headers.insert(CORRELATION, value);
        }
        response.body_mut().hold(self.in_flight.take());
        if wanted {
            response.body_mut().record(self.record(Outcome { status, elapsed, from_edge, reason }));
        }
        response
    }

    /// Records a request whose answer's head was not sent: the client has gone, or a drain has ended.
    pub(crate) fn abandoned(self) {
        if self.wanted() {
            let elapsed = self.began.elapsed();
            let (status, reason) = (ABANDONED_STATUS, Cow::Borrowed(ABANDONED));
            let outcome = Outcome { status, elapsed, from_edge: true, reason };
            drop(self.record(outcome));
        }
    }

    /// Whether the request is logged or traced.
    const fn wanted(&self) -> bool {
        self.log.is_some() || self.ids.span().is_some()
    }

    fn record(self, outcome: Outcome) -> OpenRecord {
        let Outcome { status, elapsed, from_edge, reason } = outcome;
        let record = AccessRecord {
            began: self.began,
            ids: self.ids,
            caller: self.caller,
            method: self.method,
            route: self.label.unwrap_or(UNMATCHED),
            status,
            first_byte: elapsed,
            forwarded: self.forwarded,
            received: self.received,
            from_edge,
            reason,
            log: self.log,
            bytes_in: 0,
            bytes_out: 0,
        };
        record.open()
    }

    fn count(&self, worker: &Worker, status: u16, elapsed: Duration) {
        let forwarded = match &self.forwarded {
            Some(Forwarded { to: Destination::Module(key), took, is_sent: true, .. }) => Some((key, *took)),
            _ => None,
        };
        worker.meter.answered(self.label.unwrap_or(UNMATCHED), &self.method, status, elapsed, forwarded);
    }
}
