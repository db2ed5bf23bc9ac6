//! [`RequestIds`]: the identifiers of a request that the gateway passes on to services and modules: its correlation id
//! and its trace context. The trace is the client's own or, where traces are on, a span of the gateway that continues
//! it.

use std::sync::Arc;

use contract::CorrelationId;
use http::HeaderMap;
use telemetry::traces::context;
use telemetry::{Span, SpanContext, Tracer};

use crate::metrics::meter::OBSERVED;

/// A request's identifiers. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct RequestIds {
    pub(crate) correlation: CorrelationId,
    /// The trace context that the client sent, if any; few clients do.
    sent: Option<Arc<SpanContext>>,
    /// Only with tracing on.
    span: Option<Arc<Span>>,
}

impl RequestIds {
    /// Reads the client's identifiers, and creates the missing ones.
    pub(crate) fn of(headers: &HeaderMap, tracer: Option<&Tracer>) -> Self {
        let sent = OBSERVED.then(|| context::accept(headers)).flatten().map(Arc::new);
        Self {
            correlation: CorrelationId::accept(
                headers.get(crate::http::headers::CORRELATION).map(http::HeaderValue::as_bytes),
            ),
            span: tracer.map(|tracer| Arc::new(tracer.serve(sent.as_deref()))),
            sent,
        }
    }

    /// The gateway's span of the request.
    pub(crate) const fn span(&self) -> Option<&Arc<Span>> {
        self.span.as_ref()
    }

    /// The trace to which the request belongs, if any.
    pub(crate) fn context(&self) -> Option<&SpanContext> {
        self.span.as_ref().map(|span| span.context()).or(self.sent.as_deref())
    }

    /// Opens a span for a step of the request, if it is recorded.
    pub(crate) fn step(&self, name: &'static str) -> Option<Span> {
        self.span.as_ref()?.step(name)
    }

    /// Opens a span for a question about the request, if it is recorded.
    pub(crate) fn ask(&self, method: &http::Method, whom: &str) -> Option<Span> {
        let span = self.span.as_ref().filter(|span| span.is_recording())?;
        span.ask(format!("{method} {whom}"))
    }

    /// Writes the trace context into a question's headers; `asking` is the question's own span.
    pub(crate) fn mark(&self, headers: &mut HeaderMap, asking: Option<&Span>) {
        if let Some(context) = asking.map(Span::context).or_else(|| self.context()) {
            context::write(context, headers);
        }
    }
}
