//! The byte budget that all targets share while their answers arrive. When it runs out, the target that took most is
//! cut, so that one greedy target never hides the others. A target is charged for the bytes it sends or for the bytes
//! it adds to the answer, whichever is more; so neither exceeds the total.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio_util::sync::CancellationToken;

/// The bytes for all targets.
#[derive(Debug)]
pub(super) struct Budget {
    total: usize,
    shares: Mutex<Vec<Portion>>,
}

#[derive(Debug, Default)]
struct Portion {
    taken: usize,
    cut: CancellationToken,
}

/// One target's share.
#[derive(Clone, Debug)]
pub(super) struct Share {
    budget: Arc<Budget>,
    position: usize,
    cut: CancellationToken,
}

impl Budget {
    pub(super) fn new(total: usize) -> Arc<Self> {
        Arc::new(Self { total, shares: Mutex::default() })
    }

    /// Adds a target.
    pub(super) fn share(self: &Arc<Self>) -> Share {
        let mut shares = self.lock();
        let portion = Portion::default();
        let cut = portion.cut.clone();
        shares.push(portion);
        Share { budget: Arc::clone(self), position: shares.len() - 1, cut }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Portion>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Share {
    /// Raises this share to `taken` bytes in total, cutting the largest share if the budget is exceeded; `false` if
    /// this share is cut.
    pub(super) fn take(&self, taken: usize) -> bool {
        let mut shares = self.budget.lock();
        if let Some(own) = shares.get_mut(self.position).filter(|own| !own.cut.is_cancelled()) {
            own.taken = own.taken.max(taken);
        }
        while shares.iter().map(|portion| portion.taken).sum::<usize>() > self.budget.total {
            let Some(most) = shares.iter_mut().max_by_key(|portion| portion.taken) else { break };
            most.taken = 0;
            most.cut.cancel();
        }
        !self.cut.is_cancelled()
    }

    /// Whether this target was cut, possibly after its last byte.
    pub(super) fn is_cut(&self) -> bool {
        self.cut.is_cancelled()
    }

    /// Resolves when this target is cut.
    pub(super) async fn cut(&self) {
        self.cut.cancelled().await;
    }

    /// Releases the share: a failed target adds nothing.
    pub(super) fn release(&self) {
        if let Some(own) = self.budget.lock().get_mut(self.position) {
            own.taken = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_itself_may_be_taken_and_one_byte_past_it_costs_the_greediest_its_part() {
        let budget = Budget::new(100);
        let (small, greedy) = (budget.share(), budget.share());
        assert!(small.take(10) && greedy.take(90));
        assert!(small.take(11), "the small one is not the one to go");
        assert!(greedy.is_cut() && !greedy.take(1));
        assert!(small.take(100));
        assert!(!small.take(101));
    }

    #[test]
    fn what_a_failed_target_took_is_free_again() {
        let budget = Budget::new(100);
        let (failed, other) = (budget.share(), budget.share());
        assert!(failed.take(60));
        failed.release();
        assert!(other.take(100) && !failed.is_cut());
    }
}
