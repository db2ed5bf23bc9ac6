//! What a service must have done before `/ready` may answer 200, beside its database: start-up passes that run while
//! the listener is already open.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The passes that are still to be done. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<Mutex<Passes>>);

/// Each pass, and why waiting for it is in vain where it is.
type Passes = BTreeMap<&'static str, Option<String>>;

impl Readiness {
    /// Keeps the service from being ready until [`ReadinessHold::release`]; dropping the hold (a pass that died) keeps
    /// it so for good, because what was to be done was not done.
    #[must_use = "without a release the service is never ready"]
    pub fn hold(&self, pass: &'static str) -> ReadinessHold {
        self.waiting_mut(|waiting| waiting.insert(pass, None));
        ReadinessHold { readiness: self.clone(), pass }
    }

    /// The names of the passes that are still to be done.
    #[must_use]
    pub fn waiting(&self) -> Vec<&'static str> {
        self.waiting_mut(|waiting| waiting.keys().copied().collect())
    }

    /// What has to be changed before a pass can be done, so that nobody waits in vain.
    #[must_use]
    pub fn stuck(&self) -> Vec<String> {
        self.waiting_mut(|waiting| waiting.values().flatten().cloned().collect())
    }

    fn waiting_mut<T>(&self, change: impl FnOnce(&mut Passes) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One pass that is still to be done.
#[derive(Debug)]
pub struct ReadinessHold {
    readiness: Readiness,
    pass: &'static str,
}

impl ReadinessHold {
    /// The pass cannot be done by waiting; `why` names what has to be changed.
    pub fn stuck(&self, why: String) {
        self.readiness.waiting_mut(|waiting| waiting.insert(self.pass, Some(why)));
    }

    /// The pass is done.
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
