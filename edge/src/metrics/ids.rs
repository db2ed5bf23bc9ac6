//! [`RequestIds`]: the identifiers of a request that the gateway passes on to services and modules: its correlation id and its
//! trace context. The trace is the client's own or, where traces are on, a span of the gateway that continues it.

use std::sync::Arc;

use contract::CorrelationId;
use http::HeaderMap;
use telemetry::traces::context;
use telemetry::{Span, SpanContext, Tracer};

use crate::metrics::meter::OBSERVED;

/// A request's names. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct RequestIds {
    pub(crate) correlation: CorrelationId,
    /// As the client gave it. Few do.
    sent: Option<Arc<SpanContext>>,
    /// Only where traces are on.
    span: Option<Arc<Span>>,
}

impl RequestIds {
    /// Reads the names that the client gave, and makes those that it did not.
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

    /// The edge's span of the request.
    pub(crate) const fn span(&self) -> Option<&Arc<Span>> {
        self.span.as_ref()
    }

    /// The trace it belongs to, if it belongs to one.
    pub(crate) fn context(&self) -> Option<&SpanContext> {
        self.span.as_ref().map(|span| span.context()).or(self.sent.as_deref())
    }

    /// A step of its way as a span, where anybody will see it.
    pub(crate) fn step(&self, name: &'static str) -> Option<Span> {
        self.span.as_ref()?.step(name)
    }

    /// A question for it as a span, where anybody will see it.
    pub(crate) fn ask(&self, method: &http::Method, whom: &str) -> Option<Span> {
        let span = self.span.as_ref().filter(|span| span.is_recording())?;
        span.ask(format!("{method} {whom}"))
    }

    /// Tells whoever is asked of the trace; `asking` is the question's own span.
    pub(crate) fn mark(&self, headers: &mut HeaderMap, asking: Option<&Span>) {
        if let Some(context) = asking.map(Span::context).or_else(|| self.context()) {
            context::write(context, headers);
        }
    }
}
