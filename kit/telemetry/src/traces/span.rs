//! [`Tracer`] and [`Span`]: the work of one part of the platform in one request, in OpenTelemetry's terms. A span ends
//! when it is dropped. Without an exporter there is no tracer, and so no span.

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use opentelemetry::trace::{
    Span as _, SpanContext, SpanKind, Status, TraceContextExt, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue, Value};
use opentelemetry_sdk::trace::{SdkTracer, Span as SdkSpan};

use super::export;
use crate::Metrics;

/// Makes the spans of one part. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Tracer(SdkTracer);

/// A unit of work; ends when dropped.
#[derive(Debug)]
pub struct Span(Box<Inner>);

#[derive(Debug)]
struct Inner {
    context: SpanContext,
    is_recording: bool,
    /// Locked from wherever the request is handled; uncontended, because a request is one task.
    span: Mutex<SdkSpan>,
    tracer: SdkTracer,
}

impl Tracer {
    /// The tracer of the part `service`; `None` if this process exports no traces. Counts lost spans.
    ///
    /// # Errors
    /// The family of lost spans is already registered.
    pub fn of(service: &'static str, metrics: &Metrics) -> prometheus::Result<Option<Self>> {
        let lost = metrics.register(prometheus::IntCounter::new(
            "platform_trace_spans_dropped_total",
            "Spans that were not exported: the queue was full, or the receiver did not take them.",
        )?)?;
        Ok(export::provider(service, lost).map(|provider| Self(provider.tracer(service))))
    }

    #[cfg(test)]
    pub(super) const fn new(tracer: SdkTracer) -> Self {
        Self(tracer)
    }

    /// The span of an incoming request, continuing the sender's trace if there is one.
    #[must_use]
    pub fn serve(&self, parent: Option<&SpanContext>) -> Span {
        Span::start(&self.0, parent, SpanKind::Server, Cow::Borrowed("request"), None)
    }
}

impl Span {
    /// The ids to propagate to outgoing calls.
    #[must_use]
    pub fn context(&self) -> &SpanContext {
        &self.0.context
    }

    /// Whether the span is recorded. A span that is not needs no children and no attributes.
    #[must_use]
    pub fn is_recording(&self) -> bool {
        self.0.is_recording
    }

    /// A child span; `None` if it would not be recorded.
    #[must_use]
    pub fn step(&self, name: &'static str) -> Option<Self> {
        self.child(SpanKind::Internal, Cow::Borrowed(name), None)
    }

    /// A client span for a call to another part; `name` holds the method and the target.
    #[must_use]
    pub fn ask(&self, name: impl Into<Cow<'static, str>>) -> Option<Self> {
        self.child(SpanKind::Client, name.into(), None)
    }

    /// A child span that has already ended and took `took`.
    #[must_use]
    pub fn past(&self, name: impl Into<Cow<'static, str>>, took: Duration) -> Option<Self> {
        self.child(SpanKind::Client, name.into(), Some(took))
    }

    fn child(&self, kind: SpanKind, name: Cow<'static, str>, took: Option<Duration>) -> Option<Self> {
        self.is_recording().then(|| Self::start(&self.0.tracer, Some(self.context()), kind, name, took))
    }

    fn start(
        tracer: &SdkTracer,
        parent: Option<&SpanContext>,
        kind: SpanKind,
        name: Cow<'static, str>,
        took: Option<Duration>,
    ) -> Self {
        let above = Context::new();
        let above =
            parent.map_or_else(|| above.clone(), |parent| above.with_remote_span_context(parent.clone()));
        let mut builder = tracer.span_builder(name).with_kind(kind);
        builder.start_time = took.and_then(|took| opentelemetry::time::now().checked_sub(took));
        let span = tracer.build_with_context(builder, &above);
        let (context, is_recording) = (span.span_context().clone(), span.is_recording());
        Self(Box::new(Inner { context, is_recording, span: Mutex::new(span), tracer: tracer.clone() }))
    }

    /// Sets an attribute: never a token, a body, or an address with its query.
    pub fn set(&self, key: &'static str, value: impl Into<Value>) {
        self.present().set_attribute(KeyValue::new(key, value));
    }

    /// Marks the span as failed.
    pub fn fail(&self, reason: impl Into<Cow<'static, str>>) {
        self.present().set_status(Status::error(reason));
    }

    /// Sets the attributes that every request has at its end.
    pub fn answered(&self, method: &str, route: &str, status: u16, correlation: &str) {
        if self.is_recording() {
            self.present().update_name(format!("{method} {route}"));
            self.set("http.request.method", method.to_owned());
            self.set("http.route", route.to_owned());
            self.set("http.response.status_code", i64::from(status));
            self.set("platform.correlation_id", correlation.to_owned());
            if status >= 500 {
                self.fail(status.to_string());
            }
        }
    }

    /// Ends the span, even if it is still held elsewhere.
    pub fn end(&self) {
        self.present().end();
    }

    fn present(&self) -> MutexGuard<'_, SdkSpan> {
        self.0.span.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
