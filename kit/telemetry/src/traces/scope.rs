//! The request that a task works on: its ids for log lines and outgoing calls, and the parent of further spans. It
//! follows the task, not the thread; spawned tasks have none.

use std::future::Future;
use std::sync::{Arc, OnceLock};

use contract::CorrelationId;
use opentelemetry::trace::{SpanContext, TraceId};

use super::span::Span;

tokio::task_local! {
    static PRESENT: Arc<Scope>;
}

/// One request in one service.
#[derive(Debug)]
pub struct Scope {
    correlation: CorrelationId,
    /// The sender's context, when there is no span of our own to continue it.
    sent: Option<SpanContext>,
    span: Option<Span>,
    subject: Arc<OnceLock<u64>>,
}

impl Scope {
    /// The scope of an incoming request.
    #[must_use]
    pub fn new(correlation: CorrelationId, sent: Option<SpanContext>, span: Option<Span>) -> Arc<Self> {
        Arc::new(Self { correlation, sent, span, subject: Arc::default() })
    }

    /// The scope of the current task.
    #[must_use]
    pub fn present() -> Option<Arc<Self>> {
        PRESENT.try_with(Arc::clone).ok()
    }

    /// Runs `work` in this scope.
    pub fn around<F: Future>(self: Arc<Self>, work: F) -> impl Future<Output = F::Output> {
        PRESENT.scope(self, work)
    }

    /// The request's correlation id.
    #[must_use]
    pub const fn correlation(&self) -> &CorrelationId {
        &self.correlation
    }

    /// The trace context to send along with calls made for this request.
    #[must_use]
    pub fn context(&self) -> Option<&SpanContext> {
        self.span.as_ref().map(Span::context).or(self.sent.as_ref()).filter(|context| context.is_valid())
    }

    /// The trace id, for log lines.
    #[must_use]
    pub fn trace(&self) -> Option<TraceId> {
        self.context().map(SpanContext::trace_id)
    }

    /// The span, if it is recorded.
    #[must_use]
    pub fn span(&self) -> Option<&Span> {
        self.span.as_ref().filter(|span| span.is_recording())
    }

    /// Stores the hash of the caller's subject, for the log.
    pub fn called_by(&self, hash: u64) {
        if tracing::enabled!(target: "access", tracing::Level::INFO) {
            // A second extractor of the same request has the same value.
            let _known = self.subject.get_or_init(|| hash);
        }
    }

    /// Records the outcome on the span, and ends it.
    pub fn answered(&self, method: &str, route: &str, status: u16) {
        if let Some(span) = &self.span {
            span.answered(method, route, status, self.correlation.as_str());
            span.end();
        }
    }

    /// The hash of the caller's subject, if known.
    #[must_use]
    pub fn subject(&self) -> Option<u64> {
        self.subject.get().copied()
    }
}

/// Runs a step of the current request in its own span, if it is recorded. Calls made meanwhile are children of that
/// span; `tell` records the outcome.
pub async fn step<F: Future>(name: &'static str, work: F, tell: impl FnOnce(&F::Output, &Span)) -> F::Output {
    let present = Scope::present();
    let Some((scope, span)) =
        present.and_then(|scope| scope.span()?.step(name).map(|span| (Arc::clone(&scope), span)))
    else {
        return work.await;
    };
    let inner = Arc::new(Scope {
        correlation: scope.correlation.clone(),
        sent: None,
        span: Some(span),
        subject: Arc::clone(&scope.subject),
    });
    let outcome = Arc::clone(&inner).around(work).await;
    if let Some(span) = &inner.span {
        tell(&outcome, span);
        span.end();
    }
    outcome
}
