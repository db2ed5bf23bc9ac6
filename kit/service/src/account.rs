//! What is told of every request when it is answered: its span, and where the log's target `access` is on one line. Never a
//! token, a body, a path with ids or a query; the subject only as a hash.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::response::Response;
use http::Method;
use http::header::CONTENT_LENGTH;
use http_body::Body as _;
use telemetry::{Scope, UNMATCHED};
use tracing::Level;

/// What is known of a request before it is answered.
pub(crate) struct Account {
    begun: Instant,
    method: Method,
    route: Option<MatchedPath>,
    bytes_in: u64,
}

impl Account {
    /// Reads the head.
    pub(crate) fn open(request: &Request) -> Self {
        let length = request.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
        Self {
            begun: Instant::now(),
            method: request.method().clone(),
            route: request.extensions().get::<MatchedPath>().cloned(),
            bytes_in: length.and_then(|length| length.parse().ok()).unwrap_or_default(),
        }
    }

    /// Tells of the answer.
    pub(crate) fn close(self, service: &'static str, scope: &Arc<Scope>, response: &Response) {
        let route = self.route.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
        let status = response.status().as_u16();
        if tracing::enabled!(target: "access", Level::INFO) {
            self.log(service, scope, route, response);
        }
        scope.answered(self.method.as_str(), route, status);
    }

    fn log(&self, service: &'static str, scope: &Scope, route: &str, response: &Response) {
        let trace = scope.trace().map(|trace| trace.to_string()).unwrap_or_default();
        let subject = scope.subject().map(|hash| format!("{hash:016x}")).unwrap_or_default();
        let elapsed = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        tracing::info!(
            target: "access",
            service,
            correlation_id = scope.correlation().as_str(),
            trace_id = trace,
            subject,
            method = self.method.as_str(),
            route,
            status = response.status().as_u16(),
            elapsed_us = elapsed,
            bytes_in = self.bytes_in,
            bytes_out = response.body().size_hint().lower(),
            "request"
        );
    }
}
