//! What must be done besides the database check before `/ready` returns 200: start-up passes that run while the
//! listener is already open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The outstanding passes. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<Passes>>);

/// Each pass, and where waiting does not help, the reason.
type Passes = BTreeMap<&'static str, Option<String>>;

impl Readiness {
    /// Keeps the service unready until [`ReadinessHold::release`]. Dropping the hold (a pass that died) keeps it
    /// unready for good, because the pass was never completed.
    #[must_use = "without a release the service is never ready"]
    pub fn hold(&self, pass: &'static str) -> ReadinessHold {
        self.waiting_mut(|waiting| waiting.insert(pass, None));
        ReadinessHold { readiness: self.clone(), pass }
    }

    /// The names of the outstanding passes.
    #[must_use]
    pub fn waiting(&self) -> Vec<&'static str> {
        self.waiting_mut(|waiting| waiting.keys().copied().collect())
    }

    /// What must be changed before a stuck pass can complete.
    #[must_use]
    pub fn stuck(&self) -> Vec<String> {
        self.waiting_mut(|waiting| waiting.values().flatten().cloned().collect())
    }

    fn waiting_mut<T>(&self, change: impl FnOnce(&mut Passes) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One outstanding pass.
#[derive(Debug)]
pub struct ReadinessHold {
    readiness: Readiness,
    pass: &'static str,
}

impl ReadinessHold {
    /// Marks the pass as stuck: waiting does not help; `why` names what must be changed.
    pub fn stuck(&self, why: String) {
        self.readiness.waiting_mut(|waiting| waiting.insert(self.pass, Some(why)));
    }

    /// Marks the pass as done.
    pub fn release(self) {
        self.readiness.waiting_mut(|waiting| waiting.remove(self.pass));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_release_makes_ready() {
        let readiness = Readiness::default();
        let (first, second) = (readiness.hold("first"), readiness.hold("second"));
        assert_eq!(readiness.waiting(), ["first", "second"]);
        first.release();
        assert_eq!(readiness.stuck(), Vec::<String>::new());
        second.stuck("a variable is wrong".to_owned());
        drop(second);
        assert_eq!(readiness.waiting(), ["second"]);
        assert_eq!(readiness.stuck(), ["a variable is wrong"]);
    }
}
