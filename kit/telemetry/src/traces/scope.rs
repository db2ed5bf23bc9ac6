//! The request that a task of a service works on: its names for log lines and for the questions that are asked for it, and
//! the span that further ones belong to. It follows the task, not the thread; what is spawned beside it has none.

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
    /// As the sender gave it, where no span of our own goes on from there.
    sent: Option<SpanContext>,
    span: Option<Span>,
    subject: Arc<OnceLock<u64>>,
}

impl Scope {
    /// A request that came in.
    #[must_use]
    pub fn new(correlation: CorrelationId, sent: Option<SpanContext>, span: Option<Span>) -> Arc<Self> {
        Arc::new(Self { correlation, sent, span, subject: Arc::default() })
    }

    /// The request of this task.
    #[must_use]
    pub fn present() -> Option<Arc<Self>> {
        PRESENT.try_with(Arc::clone).ok()
    }

    /// Works on this request.
    pub fn around<F: Future>(self: Arc<Self>, work: F) -> impl Future<Output = F::Output> {
        PRESENT.scope(self, work)
    }

    /// The request's name.
    #[must_use]
    pub const fn correlation(&self) -> &CorrelationId {
        &self.correlation
    }

    /// What whoever is asked for this request is told of its trace.
    #[must_use]
    pub fn context(&self) -> Option<&SpanContext> {
        self.span.as_ref().map(Span::context).or(self.sent.as_ref()).filter(|context| context.is_valid())
    }

    /// The trace, for log lines.
    #[must_use]
    pub fn trace(&self) -> Option<TraceId> {
        self.context().map(SpanContext::trace_id)
    }

    /// The span, where somebody will see it.
    #[must_use]
    pub fn span(&self) -> Option<&Span> {
        self.span.as_ref().filter(|span| span.is_recording())
    }

    /// Remembers who asks, as a hash, where a log would show it.
    pub fn called_by(&self, hash: u64) {
        if tracing::enabled!(target: "access", tracing::Level::INFO) {
            // A second extractor of the same request says the same.
            let _known = self.subject.get_or_init(|| hash);
        }
    }

    /// Tells the span what came of the request, and ends it.
    pub fn answered(&self, method: &str, route: &str, status: u16) {
        if let Some(span) = &self.span {
            span.answered(method, route, status, self.correlation.as_str());
            span.end();
        }
    }

    /// Who asks, where that is known.
    #[must_use]
    pub fn subject(&self) -> Option<u64> {
        self.subject.get().copied()
    }
}

/// A step of the present request, with a span of its own where anybody will see it. What is asked meanwhile belongs to it;
/// `tell` says what came of it.
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
