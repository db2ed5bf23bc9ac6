//! Records every answered request: its span and, where the log target `access` is on, one log line. Never records a
//! token, a body, a query or a path with ids; the subject appears only as a hash.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use http::Method;
use http::header::CONTENT_LENGTH;
use http_body::Body as _;
use telemetry::{ABANDONED, ABANDONED_STATUS, Scope, UNMATCHED};
use tracing::Level;

/// Why a request was refused, attached to the refusal itself: `details.reason` where present, else the code.
#[derive(Clone, Debug)]
pub(crate) struct Reason(pub(crate) Cow<'static, str>);

/// What is known of a request before the response.
pub(crate) struct Account {
    service: &'static str,
    scope: Arc<Scope>,
    begun: Instant,
    method: Method,
    route: Option<MatchedPath>,
    bytes_in: u64,
}

/// How the request ended.
struct Outcome<'a> {
    status: u16,
    bytes_out: u64,
    reason: &'a str,
}

impl Account {
    /// Reads the request head.
    pub(crate) fn open(service: &'static str, scope: Arc<Scope>, request: &Request) -> Self {
        let length = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        Self {
            service,
            scope,
            begun: Instant::now(),
            method: request.method().clone(),
            route: request.extensions().get::<MatchedPath>().cloned(),
            bytes_in: length.and_then(|length| length.parse().ok()).unwrap_or_default(),
        }
    }

    /// Records the response.
    pub(crate) fn close(self, response: &Response) {
        let reason = response.extensions().get::<Reason>().map_or("", |reason| &reason.0);
        let bytes_out = response.body().size_hint().lower();
        self.tell(&Outcome { status: response.status().as_u16(), bytes_out, reason });
    }

    /// Records that the client went away before the response.
    pub(crate) fn abandon(self) {
        self.tell(&Outcome { status: ABANDONED_STATUS, bytes_out: 0, reason: ABANDONED });
    }

    fn tell(&self, outcome: &Outcome<'_>) {
        let route = self.route.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
        if tracing::enabled!(target: "access", Level::INFO) {
            self.log(route, outcome);
        }
        self.scope.answered(self.method.as_str(), route, outcome.status);
    }

    fn log(&self, route: &str, outcome: &Outcome<'_>) {
        let scope = &self.scope;
        let trace = scope.trace().map(|trace| trace.to_string()).unwrap_or_default();
        let subject = scope.subject().map(|hash| format!("{hash:016x}")).unwrap_or_default();
        let elapsed = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        tracing::info!(
            target: "access",
            service = self.service,
            correlation_id = scope.correlation().as_str(),
            trace_id = trace,
            subject,
            method = self.method.as_str(),
            route,
            status = outcome.status,
            elapsed_us = elapsed,
            bytes_in = self.bytes_in,
            bytes_out = outcome.bytes_out,
            reason = outcome.reason,
            "request"
        );
    }
}
