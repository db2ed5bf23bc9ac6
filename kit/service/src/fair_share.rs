//! Shares something scarce, such as connections, between subjects. Each may have a number of uses at once, and waits for
//! one of its own to end before the next, so that however many one subject begins, others find some left.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{AcquireError, OwnedSemaphorePermit, Semaphore};

/// Most subjects with a running or waiting use: far more than a service holds requests.
const MAX_SUBJECTS: usize = 10_000;

/// The uses of each subject. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct FairShare {
    subjects: Arc<Mutex<HashMap<Box<str>, Uses>>>,
    each: usize,
}

/// The uses of one subject; a subject without uses has no entry.
#[derive(Debug)]
struct Uses {
    count: usize,
    permits: Arc<Semaphore>,
}

/// One use; dropping it lets the subject's next one begin.
#[derive(Debug)]
#[must_use = "the use is over when this is dropped"]
pub(crate) struct Use {
    _permit: OwnedSemaphorePermit,
    _counted: Counted,
}

/// Counts a use, running or waiting, until it is dropped.
#[derive(Debug)]
struct Counted {
    share: FairShare,
    subject: Box<str>,
    permits: Arc<Semaphore>,
}

impl FairShare {
    /// Lets each subject have `each` uses at a time, at least one.
    pub(crate) fn new(each: usize) -> Self {
        Self { subjects: Arc::default(), each: each.clamp(1, Semaphore::MAX_PERMITS) }
    }

    /// Waits until the subject may have one more use; `None` when too many subjects have uses.
    pub(crate) async fn enter(&self, subject: &str) -> Result<Option<Use>, AcquireError> {
        match self.count(subject, usize::MAX) {
            Some(counted) => counted.permit().await.map(Some),
            None => Ok(None),
        }
    }

    /// Counts one more use of the subject, which has at most `most`, running or waiting; `None` when it has them already or
    /// when too many subjects have uses.
    fn count(&self, subject: &str, most: usize) -> Option<Counted> {
        let mut subjects = self.subjects();
        let is_full = subjects.len() >= MAX_SUBJECTS;
        let permits = match subjects.entry(subject.into()) {
            Entry::Occupied(known) if known.get().count >= most => return None,
            Entry::Occupied(mut known) => {
                known.get_mut().count += 1;
                Arc::clone(&known.get().permits)
            }
            Entry::Vacant(_) if is_full => return None,
            Entry::Vacant(unknown) => {
                let permits = Arc::new(Semaphore::new(self.each));
                Arc::clone(&unknown.insert(Uses { count: 1, permits }).permits)
            }
        };
        Some(Counted { share: self.clone(), subject: subject.into(), permits })
    }

    fn subjects(&self) -> MutexGuard<'_, HashMap<Box<str>, Uses>> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn is_unused(&self) -> bool {
        self.subjects().is_empty()
    }
}

/// Limits the uses of all subjects together, and more tightly those of each, so that one subject, however many uses it
/// asks for, leaves some to others. Cheap to clone.
#[derive(Clone, Debug)]
pub struct FairLimit {
    share: FairShare,
    permits: Arc<Semaphore>,
}

/// A use within a [`FairLimit`]; dropping it lets the next one begin.
#[derive(Debug)]
#[must_use = "the use is over when this is dropped"]
pub struct FairPermit {
    _of_all: OwnedSemaphorePermit,
    _own: Use,
}

impl FairLimit {
    /// Allows `all` uses at a time, at least one, and `each` of them to one subject, at least one.
    #[must_use]
    pub fn new(all: usize, each: usize) -> Self {
        let permits = Arc::new(Semaphore::new(all.clamp(1, Semaphore::MAX_PERMITS)));
        Self { share: FairShare::new(each), permits }
    }

    /// Waits until the subject may have one more use; `None` when it has `most` already, running or waiting, or when too
    /// many subjects have uses.
    ///
    /// # Errors
    /// The permits were closed, which never happens.
    pub async fn acquire(&self, subject: &str, most: usize) -> Result<Option<FairPermit>, AcquireError> {
        let Some(counted) = self.share.count(subject, most) else { return Ok(None) };
        let own = counted.permit().await?;
        let of_all = Arc::clone(&self.permits).acquire_owned().await?;
        Ok(Some(FairPermit { _of_all: of_all, _own: own }))
    }

    #[cfg(test)]
    pub(crate) fn is_unused(&self) -> bool {
        self.share.is_unused()
    }

    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.permits.available_permits()
    }
}

impl Counted {
    /// Waits for one of the subject's permits.
    ///
    /// # Errors
    /// The permits were closed, which never happens.
    async fn permit(self) -> Result<Use, AcquireError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await?;
        Ok(Use { _permit: permit, _counted: self })
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut subjects = self.share.subjects();
        // The key's text is moved out; a dropped value needs it no more.
        if let Entry::Occupied(mut known) = subjects.entry(std::mem::take(&mut self.subject)) {
            known.get_mut().count = known.get().count.saturating_sub(1);
            if known.get().count == 0 {
                known.remove();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::Poll;

    use super::*;

    /// Polls a future once; returns whether it waits.
    async fn waits<F: Future + Unpin>(future: &mut F) -> bool {
        std::future::poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context).is_pending())).await
    }

    #[tokio::test]
    async fn a_subject_waits_for_its_own_uses_and_not_for_others() {
        let share = FairShare::new(2);
        let begin = |subject: &str| Box::pin(share.count(subject, usize::MAX).expect("room").permit());
        let (first, second) = (begin("ann").await, begin("ann").await);
        let mut third = begin("ann");
        assert!(waits(&mut third).await, "two at a time");
        assert!(!waits(&mut begin("bob")).await, "another subject does not wait");
        drop(first);
        let third = third.await;
        drop((second, third));
        assert!(share.is_unused(), "nothing is kept of a subject without uses");
    }

    #[test]
    fn uses_and_subjects_have_a_limit() {
        let share = FairShare::new(1);
        let held: Vec<_> =
            (0..MAX_SUBJECTS).map(|at| share.count(&format!("s{at}"), 2).expect("room")).collect();
        assert!(share.count("one more", 2).is_none());
        let second = share.count("s0", 2);
        assert!(second.is_some() && share.count("s0", 2).is_none(), "a known subject has its most");
        drop((held, second));
        assert!(share.count("one more", 2).is_some());
    }
}
