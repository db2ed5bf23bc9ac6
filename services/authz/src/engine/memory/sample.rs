//! Repeats one decision in a thousand with SQL. The results are compared only when the graph is the same before and
//! after the statement: then no tuple changed in between, and both engines must agree on every relation.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;

use super::MemoryEngine;
use crate::engine::answers::Engine;
use crate::engine::facts::{Facts, Held, Question};
use crate::engine::feed::meter::FeedMeter;
use crate::engine::feed::wanted::{Moment, Wanted};

/// One decision in this many is compared.
const ONE_IN: u64 = 1_000;

/// Selects decisions and compares them. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    meter: FeedMeter,
    decisions: Arc<AtomicU64>,
}

impl Sampler {
    pub(crate) fn new(meter: FeedMeter) -> Self {
        Self { meter, decisions: Arc::new(AtomicU64::new(0)) }
    }

    /// True for the first decision and every thousandth after it.
    pub(crate) fn is_due(&self) -> bool {
        self.decisions.fetch_add(1, Ordering::Relaxed).is_multiple_of(ONE_IN)
    }

    /// Compares in the background; the decision does not wait.
    pub(crate) fn compare(
        &self,
        engine: MemoryEngine,
        question: Question,
        facts: Facts,
        before: Arc<Moment>,
    ) {
        let meter = self.meter.clone();
        tokio::spawn(async move {
            let Ok(by_sql) = engine.sql.read(&question).await else { return };
            let Ok(after) = engine.batcher.ask(Wanted::default()).await else { return };
            let same_graph = Arc::ptr_eq(&before.view, &after.view);
            if !same_graph || by_sql.model.edition() != facts.model.edition() {
                return;
            }
            let same = agree(&facts.held, &by_sql.held);
            if !same {
                tracing::error!(?question, memory = ?facts.held, sql = ?by_sql.held, "the engines disagree");
            }
            meter.compared(same);
        });
    }
}

/// Whether two engines agree. One searches from both ends and the other from one, so their budgets may end apart: what one
/// of them does not know is no disagreement.
fn agree<A: Eq + Hash>(memory: &HashMap<A, Held>, sql: &HashMap<A, Held>) -> bool {
    let one = |(asked, held): (&A, &Held)| {
        sql.get(asked).is_some_and(|other| held == other || [*held, *other].contains(&Held::Unknown))
    };
    memory.len() == sql.len() && memory.iter().all(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exhausted_budget_is_no_disagreement() {
        use Held::{No, Unknown, Yes};
        let found = |held: &[Held]| held.iter().copied().enumerate().collect::<HashMap<_, _>>();
        let agree = |memory: &[Held], sql: &[Held]| agree(&found(memory), &found(sql));
        assert!(agree(&[Yes, No], &[Yes, No]) && agree(&[Yes, Unknown], &[Unknown, No]));
        assert!(!agree(&[Yes], &[No]) && !agree(&[Unknown, Yes], &[Yes, No]) && !agree(&[Yes], &[Yes, Yes]));
    }
}
