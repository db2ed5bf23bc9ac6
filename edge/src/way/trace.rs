//! What is remembered of a request along its way, for the end of it: correlation id and origin on the answer, metrics,
//! and one line in the access log, which is written beside the requests.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bearer::Claims;
use contract::{CorrelationId, Subject};
use http::{HeaderValue, Method, Request, Response};
use telemetry::{AccessRecord, InFlight, UNMATCHED, Value};
use time::OffsetDateTime;
use tokio::time::Instant;
use tracing::Level;

use super::bearer::Caller;
use super::clearance::Destination;
use super::rate::Taken;
use super::refusal::Refusal;
use super::route::Route;
use super::{CORRELATION, cors};
use crate::Edge;
use crate::wire::body::EdgeBody;

/// Bytes of a subject's hash in the log: enough to tell subjects apart, too few to look one up.
const HASH_BYTES: usize = 8;

/// A request's memory.
pub(crate) struct Trace {
    pub(crate) correlation: CorrelationId,
    pub(crate) origin: Option<HeaderValue>,
    method: Method,
    began: Instant,
    in_flight: InFlight,
    label: Option<&'static str>,
    caller: Option<Arc<Claims>>,
    forwarded: Option<Forwarded>,
    taken: Option<Taken>,
}

/// A request that went to an upstream.
struct Forwarded {
    to: Destination,
    took: Duration,
}

impl Trace {
    pub(crate) fn begin<B>(edge: &Edge, request: &Request<B>) -> Self {
        let headers = request.headers();
        Self {
            correlation: CorrelationId::accept(headers.get(CORRELATION).map(HeaderValue::as_bytes)),
            origin: cors::allowed_origin(headers, &edge.config.origins),
            method: request.method().clone(),
            began: Instant::now(),
            in_flight: edge.meter.begin(),
            label: None,
            caller: None,
            forwarded: None,
            taken: None,
        }
    }

    pub(crate) const fn matched(&mut self, route: &Route) {
        self.label = Some(route.label);
    }

    pub(crate) fn called_by(&mut self, caller: &Caller) {
        self.caller = Some(Arc::clone(&caller.claims));
    }

    /// What a rate limit said of this request; refuses where it said no.
    pub(crate) fn limited(&mut self, edge: &Edge, taken: Option<Taken>) -> Result<(), Refusal> {
        self.taken = taken;
        let Some(refusal) = taken.and_then(Taken::refusal) else { return Ok(()) };
        edge.meter.tally.limited(taken.map_or("", |taken| taken.scope));
        Err(refusal)
    }

    pub(crate) fn forwarded(&mut self, to: &Destination, took: Duration) {
        self.forwarded = Some(Forwarded { to: to.clone(), took });
    }

    /// The answer, marked, counted and logged.
    pub(crate) fn finish(
        mut self,
        edge: &Edge,
        answered: Result<Response<EdgeBody>, Refusal>,
    ) -> Response<EdgeBody> {
        let refused = answered.as_ref().err();
        self.label = self.label.or_else(|| refused.and_then(Refusal::label));
        if let Some(refusal) = refused {
            edge.meter.refused(refusal.kind());
        }
        let logged = tracing::enabled!(target: "access", Level::INFO);
        let reason = refused.filter(|_| logged).map_or(Cow::Borrowed(""), Refusal::reason);
        let from_edge = refused.is_some() || self.forwarded.is_none();
        let mut response = answered.unwrap_or_else(Refusal::render);
        let (status, elapsed) = (response.status().as_u16(), self.began.elapsed());
        self.count(edge, status, elapsed);
        let headers = response.headers_mut();
        cors::mark(headers, self.origin);
        if let Some(taken) = self.taken {
            taken.mark(headers);
        }
        if let Ok(value) = HeaderValue::from_str(self.correlation.as_str()) {
            headers.insert(CORRELATION, value);
        }
        response.body_mut().hold(self.in_flight);
        if logged {
            edge.access.put(AccessLine {
                at: edge.dates.moment(),
                correlation: self.correlation,
                caller: self.caller,
                method: self.method,
                route: self.label.unwrap_or(UNMATCHED),
                status,
                elapsed,
                forwarded: self.forwarded,
                from_edge,
                reason,
            });
        }
        response
    }

    fn count(&self, edge: &Edge, status: u16, elapsed: Duration) {
        edge.meter.observe(self.label.unwrap_or(UNMATCHED), &self.method, status, elapsed);
        if let Some(Forwarded { to: Destination::Module(key), took }) = &self.forwarded {
            edge.meter.forwarded(key, status, *took);
        }
    }
}

/// A line of the access log: never a token, and the subject only as a hash.
pub(crate) struct AccessLine {
    at: OffsetDateTime,
    correlation: CorrelationId,
    caller: Option<Arc<Claims>>,
    method: Method,
    route: &'static str,
    status: u16,
    elapsed: Duration,
    forwarded: Option<Forwarded>,
    from_edge: bool,
    reason: Cow<'static, str>,
}

impl AccessRecord for AccessLine {
    fn at(&self) -> OffsetDateTime {
        self.at
    }

    fn fields(&self, field: &mut dyn FnMut(&'static str, Value<'_>)) {
        let subject = self.caller.as_ref().map(|caller| format!("{:016x}", hash(&caller.subject)));
        let upstream = self.forwarded.as_ref().map(|forwarded| match &forwarded.to {
            Destination::Service(service) => service.name(),
            Destination::Module(key) => key.as_ref(),
        });
        field("correlation_id", Value::Text(self.correlation.as_str()));
        field("subject", Value::Text(subject.as_deref().unwrap_or_default()));
        field("method", Value::Text(self.method.as_str()));
        field("route", Value::Text(self.route));
        field("status", Value::Number(u64::from(self.status)));
        field("elapsed_us", Value::Number(micros(self.elapsed)));
        field("upstream", Value::Text(upstream.unwrap_or_default()));
        let took = self.forwarded.as_ref().map_or(0, |forwarded| micros(forwarded.took));
        field("upstream_us", Value::Number(took));
        field("origin", Value::Text(if self.from_edge { "edge" } else { "upstream" }));
        field("reason", Value::Text(&self.reason));
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn hash(subject: &Subject) -> u64 {
    let digest = ring::digest::digest(&ring::digest::SHA256, subject.as_str().as_bytes());
    let short = digest.as_ref().iter().take(HASH_BYTES);
    short.fold(0_u64, |hash, byte| (hash << 8) | u64::from(*byte))
}
