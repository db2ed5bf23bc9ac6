//! What is remembered of a request along its way, for the end of it: correlation id and origin on the answer, metrics,
//! and one line in the access log (never a token, and the subject only as a hash).

use std::sync::Arc;
use std::time::Duration;

use bearer::Claims;
use contract::{CorrelationId, Subject};
use http::{HeaderValue, Method, Request, Response};
use telemetry::{InFlight, UNMATCHED};
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
        let reason = refused.map_or(String::new(), |refusal| refusal.reason().to_owned());
        let from_edge = refused.is_some() || self.forwarded.is_none();
        let mut response = answered.unwrap_or_else(Refusal::render);
        self.count(edge, response.status().as_u16());
        self.log(response.status().as_u16(), from_edge, &reason);
        let headers = response.headers_mut();
        cors::mark(headers, self.origin);
        if let Some(taken) = self.taken {
            taken.mark(headers);
        }
        if let Ok(value) = HeaderValue::from_str(self.correlation.as_str()) {
            headers.insert(CORRELATION, value);
        }
        response.body_mut().hold(self.in_flight);
        response
    }

    fn count(&self, edge: &Edge, status: u16) {
        edge.meter.observe(
            self.label.unwrap_or(UNMATCHED),
            self.method.as_str(),
            status,
            self.began.elapsed(),
        );
        if let Some(Forwarded { to: Destination::Module(key), took }) = &self.forwarded {
            edge.meter.forwarded(key, status, *took);
        }
    }

    fn log(&self, status: u16, from_edge: bool, reason: &str) {
        if !tracing::enabled!(target: "access", Level::INFO) {
            return;
        }
        let upstream = self.forwarded.as_ref().map(|forwarded| match &forwarded.to {
            Destination::Service(service) => service.name(),
            Destination::Module(key) => key.as_str(),
        });
        tracing::info!(
            target: "access",
            correlation_id = self.correlation.as_str(),
            subject = self.caller.as_ref().map(|caller| format!("{:016x}", hash(&caller.subject))).unwrap_or_default(),
            method = self.method.as_str(),
            route = self.label.unwrap_or(UNMATCHED),
            status,
            elapsed_us = micros(self.began.elapsed()),
            upstream = upstream.unwrap_or_default(),
            upstream_us = self.forwarded.as_ref().map_or(0, |forwarded| micros(forwarded.took)),
            origin = if from_edge { "edge" } else { "upstream" },
            reason,
            "request"
        );
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
