//! The bound on costly reads: lists, searches and explanations. One subject may have a few at once; further ones are
//! refused (429). A service runs a few at a time, one per subject, so that however many are queued, the next subject
//! waits for at most one read of each other subject. Authorization decisions never pass through here.
//!
//! A service's own questions are exempt: they stand for many subjects, whose requests were bounded where they entered.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::extract::{FromRef, FromRequestParts};
use contract::Subject;
use http::request::Parts;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::{ApiError, Caller, Core, Reader};

/// Most costly reads of one subject, running and queued.
pub const MAX_READS: usize = 4;
/// Most subjects with a running or queued read: far more than a service holds requests.
const MAX_SUBJECTS: usize = 10_000;

/// Bounds the costly reads of one service. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ReadLimit {
    subjects: Arc<Mutex<HashMap<Subject, Reads>>>,
    turns: Arc<Semaphore>,
}

/// The reads of one subject; a subject without reads has no entry.
#[derive(Debug)]
struct Reads {
    count: usize,
    turn: Arc<Semaphore>,
}

/// The turn of one read; dropping it passes the turn on.
#[derive(Debug)]
#[must_use = "the read is over when this is dropped"]
pub struct ReadTurn {
    _service: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    _counted: Counted,
}

/// Counts a read until it is dropped.
#[derive(Debug)]
struct Counted {
    limit: ReadLimit,
    subject: Subject,
}

impl ReadLimit {
    /// A limit of `turns` reads at a time, each of another subject.
    #[must_use]
    pub fn new(turns: usize) -> Self {
        Self {
            subjects: Arc::default(),
            turns: Arc::new(Semaphore::new(turns.clamp(1, Semaphore::MAX_PERMITS))),
        }
    }

    /// Waits for the subject's turn.
    ///
    /// # Errors
    /// 429 when the subject already has [`MAX_READS`].
    pub async fn enter(&self, subject: &Subject) -> Result<ReadTurn, ApiError> {
        let (counted, own) = self.count(subject)?;
        let unavailable = |_| ApiError::unavailable("read_limit");
        let own = own.acquire_owned().await.map_err(unavailable)?;
        let service = Arc::clone(&self.turns).acquire_owned().await.map_err(unavailable)?;
        Ok(ReadTurn { _service: service, _own: own, _counted: counted })
    }

    /// As [`Self::enter`], for any reader; an insider never waits.
    ///
    /// # Errors
    /// As [`Self::enter`].
    pub async fn enter_as(&self, reader: &Reader) -> Result<Option<ReadTurn>, ApiError> {
        match reader {
            Reader::Insider => Ok(None),
            Reader::Subject(caller) => self.enter(&caller.subject).await.map(Some),
        }
    }

    fn count(&self, subject: &Subject) -> Result<(Counted, Arc<Semaphore>), ApiError> {
        let mut subjects = self.subjects();
        let is_full = subjects.len() >= MAX_SUBJECTS;
        let turn = match subjects.entry(subject.clone()) {
            Entry::Occupied(known) if known.get().count >= MAX_READS => return Err(ApiError::RateLimited),
            Entry::Occupied(mut known) => {
                known.get_mut().count += 1;
                Arc::clone(&known.get().turn)
            }
            Entry::Vacant(_) if is_full => return Err(ApiError::RateLimited),
            Entry::Vacant(place) => Arc::clone(&place.insert(Reads { count: 1, turn: one() }).turn),
        };
        Ok((Counted { limit: self.clone(), subject: subject.clone() }, turn))
    }

    fn subjects(&self) -> MutexGuard<'_, HashMap<Subject, Reads>> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn one() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(1))
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut subjects = self.limit.subjects();
        if let Entry::Occupied(mut known) = subjects.entry(self.subject.clone()) {
            known.get_mut().count = known.get().count.saturating_sub(1);
            if known.get().count == 0 {
                known.remove();
            }
        }
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
        std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_pending())).await
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
        assert!(limit.subjects().is_empty(), "nothing is kept of who reads no more");
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

    #[tokio::test]
    async fn the_table_of_subjects_has_a_limit() {
        let limit = ReadLimit::new(1);
        let counted: Vec<_> = (0..MAX_SUBJECTS)
            .map(|number| limit.count(&subject(&format!("s{number}"))).expect("room"))
            .collect();
        assert!(matches!(limit.count(&subject("one more")), Err(ApiError::RateLimited)));
        assert!(limit.count(&subject("s0")).is_ok(), "who is known may have more");
        drop(counted);
        assert!(limit.count(&subject("one more")).is_ok());
    }
}
