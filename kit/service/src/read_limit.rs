//! The bound on costly reads: lists, searches and explanations. One subject may have a few at once; further ones are
//! refused (429). A service runs a few at a time, one per subject, so that however many are queued, the next subject
//! waits for at most one read of each other subject. A read whose turn has not come after two seconds is refused (503),
//! while there is time left to run one. A read that has its turn runs to its end, whether its client waits or not:
//! otherwise a client that gives up each read would occupy every connection. Authorization decisions never pass through here.
//!
//! Reads of a few rows by an index are bounded in the same way, but have turns of their own
//! ([`brief_reads`](crate::core::CoreParts::brief_reads)), so that none of them waits for a costly one.
//!
//! A read that had to wait is decided again before it runs ([`LimitedRead`]), so a right that was taken away meanwhile
//! opens nothing.
//!
//! A service's own questions are exempt: they stand for many subjects, whose requests were bounded where they entered.

use std::convert::Infallible;
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::pin;
use std::time::Duration;

use axum::extract::{FromRef, FromRequestParts};
use contract::Subject;
use http::request::Parts;
use prometheus::{IntCounter, IntCounterVec, Opts};
use serde_json::json;
use telemetry::Metrics;

use crate::abandoned::Holding;
use crate::error::RETRY_AFTER_SECONDS;
use crate::fair_share::{FairLimit, FairPermit, FairShare, Use};
use crate::{ApiError, Caller, Core, Reader};

/// Most costly reads of one subject, running and queued.
pub const MAX_READS: usize = 4;

/// Longest wait for a turn.
const MAX_WAIT: Duration = Duration::from_secs(2);

/// Bounds reads of one service. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ReadLimit {
    permits: FairLimit,
    refused: Option<Refused>,
}

/// The dependency that 503 names when a turn does not come.
pub(crate) const DEPENDENCY: &str = "read_limit";

/// 503 of a read that cannot run soon enough, with the time after which to repeat it.
fn busy() -> ApiError {
    let details = json!({ "retryAfterSeconds": RETRY_AFTER_SECONDS });
    ApiError::Unavailable { dependency: DEPENDENCY.into(), details }
}

/// The family of refused reads of one service.
pub(crate) struct RefusedReads(IntCounterVec);

/// The series of one limit.
#[derive(Clone, Debug)]
struct Refused {
    /// The subject had its reads.
    subject: IntCounter,
    /// The turn did not come.
    turn: IntCounter,
}

impl RefusedReads {
    /// Registers the family.
    pub(crate) fn register(metrics: &Metrics) -> prometheus::Result<Self> {
        let help = "Refused reads, costly or brief (reads), because their subject had four (subject) or their turn did not come (turn) (reason).";
        let family =
            IntCounterVec::new(Opts::new("platform_reads_refused_total", help), &["reads", "reason"])?;
        metrics.register(family).map(Self)
    }

    fn of(&self, reads: &str) -> Refused {
        let series = |reason| self.0.with_label_values(&[reads, reason]);
        Refused { subject: series("subject"), turn: series("turn") }
    }
}

/// A running read; dropping it lets the next one begin.
#[derive(Debug)]
#[must_use = "the read is over when this is dropped"]
pub struct ReadPermit {
    #[expect(dead_code, reason = "held until the read is over")]
    held: (FairPermit, Holding),
    waited: bool,
}

impl ReadPermit {
    /// Whether the turn did not come at once: what was decided before it may be outdated.
    #[must_use]
    pub const fn waited(&self) -> bool {
        self.waited
    }
}

/// Shares the connections between the subjects that read long texts one by one, or lists that are not paged. Each subject has a few reads at a time;
/// further ones wait instead of being refused.
#[derive(Clone, Debug)]
pub struct LongReads(FairShare);

/// One read of a long text or list; dropping it lets the subject's next one begin.
#[derive(Debug)]
#[must_use = "the read is over when this is dropped"]
pub struct LongRead(#[expect(dead_code, reason = "held until the read is over")] (Use, Holding));

impl LongReads {
    /// Lets each subject have `each` reads at a time.
    pub(crate) fn new(each: usize) -> Self {
        Self(FairShare::new(each))
    }

    /// Waits until the subject may have one more.
    ///
    /// # Errors
    /// 503 when too many subjects read.
    pub async fn enter(&self, subject: &Subject) -> Result<LongRead, ApiError> {
        let entered = self.0.enter(subject.as_str()).await.map_err(|_| busy())?;
        entered.map(|entered| LongRead((entered, Holding::begin()))).ok_or_else(busy)
    }
}

impl ReadLimit {
    /// A limit of `reads` reads at a time, each of another subject.
    #[must_use]
    pub fn new(reads: usize) -> Self {
        Self { permits: FairLimit::new(reads, 1), refused: None }
    }

    /// As [`Self::new`]; refused reads count as `reads` in the family.
    pub(crate) fn counted(limit: usize, family: &RefusedReads, reads: &str) -> Self {
        Self { refused: Some(family.of(reads)), ..Self::new(limit) }
    }

    /// Waits for the subject's turn.
    ///
    /// # Errors
    /// 429 when the subject already has [`MAX_READS`]; 503 when the turn does not come.
    pub async fn enter(&self, subject: &Subject) -> Result<ReadPermit, ApiError> {
        let entered = self.wait(subject).await;
        if let (Some(refused), Err(refusal)) = (&self.refused, &entered) {
            let is_of_subject = matches!(refusal, ApiError::RateLimited);
            if is_of_subject { refused.subject.inc() } else { refused.turn.inc() }
        }
        entered
    }

    async fn wait(&self, subject: &Subject) -> Result<ReadPermit, ApiError> {
        let mut taking = pin!(self.permits.acquire(subject.as_str(), MAX_READS));
        let mut waited = false;
        let turn = poll_fn(|context| {
            let polled = taking.as_mut().poll(context);
            waited |= polled.is_pending();
            polled
        });
        let turn = tokio::time::timeout(MAX_WAIT, turn).await.map_err(|_| busy())?;
        let turn = turn.map_err(|_| busy())?.ok_or(ApiError::RateLimited)?;
        Ok(ReadPermit { held: (turn, Holding::begin()), waited })
    }

    /// As [`Self::enter`], for any reader; an insider never waits.
    ///
    /// # Errors
    /// As [`Self::enter`].
    pub async fn enter_as(&self, reader: &Reader) -> Result<Option<ReadPermit>, ApiError> {
        match reader {
            Reader::Insider => Ok(None),
            Reader::Subject(caller) => self.enter(&caller.subject).await.map(Some),
        }
    }
}

/// What an extractor decides about a costly read, such as a [`Permit`](crate::Permit), within the read limit: decided again
/// if the read had to wait. The read ends when this is dropped.
#[derive(Debug)]
pub struct LimitedRead<P> {
    decided: P,
    #[expect(dead_code, reason = "held until the read is over")]
    read: ReadPermit,
}

impl<P> Deref for LimitedRead<P> {
    type Target = P;

    fn deref(&self) -> &P {
        &self.decided
    }
}

impl<S, P> FromRequestParts<S> for LimitedRead<P>
where
    S: Send + Sync,
    P: FromRequestParts<S, Rejection = ApiError> + Send,
    Core: FromRef<S>,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let mut decided = P::from_request_parts(parts, state).await?;
        let caller = Caller::from_request_parts(parts, state).await?;
        let read = Core::from_ref(state).read_limit.enter(&caller.subject).await?;
        if read.waited() {
            decided = P::from_request_parts(parts, state).await?;
        }
        Ok(Self { decided, read })
    }
}

/// The reader on a route that requires no bearer: without a verified bearer, a service.
#[derive(Debug)]
pub struct Asker(pub Option<Subject>);

impl<S> FromRequestParts<S> for Asker
where
    S: Send + Sync,
    Core: FromRef<S>,
{
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        if Core::from_ref(state).inside.is_service(&parts.headers) {
            return Ok(Self(None));
        }
        let caller = Caller::from_request_parts(parts, state).await;
        Ok(Self(caller.ok().map(|caller| caller.subject)))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::Poll;

    use super::*;

    fn subject(name: &str) -> Subject {
        Subject::parse(name).expect("a subject")
    }

    /// Polls a future once; returns whether it waits.
    async fn waits<F: Future + Unpin>(future: &mut F) -> bool {
        poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_pending())).await
    }

    #[tokio::test]
    async fn a_subject_has_four_reads_and_one_turn() {
        let (limit, ann) = (ReadLimit::new(2), subject("ann"));
        let first = limit.enter(&ann).await.expect("the first");
        let mut others: Vec<_> = (1..MAX_READS).map(|_| Box::pin(limit.enter(&ann))).collect();
        for other in &mut others {
            assert!(waits(other).await, "for its own subject");
        }
        assert!(matches!(limit.enter(&ann).await, Err(ApiError::RateLimited)), "one past the limit");
        let bob = limit.enter(&subject("bob")).await.expect("another subject has a turn");
        drop((first, bob));
        for other in others {
            drop(other.await.expect("one after the other"));
        }
        assert!(limit.permits.is_unused(), "nothing is kept of who reads no more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_turn_that_does_not_come_is_refused_and_leaves_nothing() {
        let (limit, ann) = (ReadLimit::new(1), subject("ann"));
        let held = limit.enter(&subject("bob")).await.expect("the only turn");
        let begun = tokio::time::Instant::now();
        let refused = limit.enter(&ann).await;
        assert!(matches!(refused, Err(ApiError::Unavailable { .. })), "{refused:?}");
        assert_eq!(begun.elapsed(), MAX_WAIT);
        drop(held);
        drop(limit.enter(&ann).await.expect("a turn again"));
        assert!(limit.permits.is_unused());
    }

    #[tokio::test]
    async fn a_read_that_is_given_up_counts_no_more() {
        let (limit, ann) = (ReadLimit::new(1), subject("ann"));
        let _held = limit.enter(&subject("bob")).await.expect("the only turn");
        let mut waiting: Vec<_> = (0..MAX_READS).map(|_| Box::pin(limit.enter(&ann))).collect();
        for one in &mut waiting {
            assert!(waits(one).await);
        }
        assert!(matches!(limit.enter(&ann).await, Err(ApiError::RateLimited)));
        drop(waiting.pop());
        assert!(waits(&mut Box::pin(limit.enter(&ann))).await, "there is room for one again");
    }
}
