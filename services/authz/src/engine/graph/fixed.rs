//! A graph of given tuples and a given model, without a feed: for cases with known answers, property tests and
//! benchmarks. It uses the engine's graph, rules and searches.

use std::sync::Arc;

use sqlx::PgConnection;

use crate::engine::answers::{DEFAULT_BUDGET, Shown, Tree, Unanswered};
use crate::engine::facts::{Ask, Held, SubjectRef};
use crate::engine::graph::load::load_over;
use crate::engine::graph::names::Node;
use crate::engine::graph::rules::Bound;
use crate::engine::graph::search::{Search, states};
use crate::engine::graph::words::Full;
use crate::engine::graph::{Graph, GraphBuilder, TupleRow};
use crate::engine::graph::{reach, tree};
use crate::engine::model::Model;

/// A graph built from a set of tuples, which [`Self::apply`] then changes one by one.
#[derive(Clone, Debug)]
pub struct FixedGraph {
    graph: Graph,
    rules: Arc<Bound>,
    budget: i64,
}

impl FixedGraph {
    /// Builds the graph of these tuples.
    ///
    /// # Errors
    /// There are too many.
    pub fn build<'a>(model: &Arc<Model>, tuples: impl Iterator<Item = TupleRow<'a>>) -> Result<Self, Full> {
        let mut builder = GraphBuilder::default();
        for tuple in tuples {
            builder.push(&tuple)?;
        }
        let mut graph = builder.finish()?;
        let rules = Arc::new(Bound::new(Arc::clone(model), &mut graph)?);
        Ok(Self { graph, rules, budget: DEFAULT_BUDGET })
    }

    /// Loads all tuples of a database, then closes the connection.
    ///
    /// # Errors
    /// The database cannot answer, or there are too many tuples.
    pub async fn load(model: &Arc<Model>, connection: PgConnection) -> Result<Self, Unanswered> {
        let failed = |cause: String| Unanswered { dependency: "postgres", cause };
        let mut graph = load_over(connection).await.map_err(|error| failed(error.to_string()))?;
        let rules = Bound::new(Arc::clone(model), &mut graph).map_err(|full| failed(full.to_string()))?;
        Ok(Self { graph, rules: Arc::new(rules), budget: DEFAULT_BUDGET })
    }

    /// Sets the budget of a question.
    #[must_use]
    pub const fn with_budget(mut self, budget: i64) -> Self {
        self.budget = budget;
        self
    }

    /// Adds or removes a tuple; returns false when nothing changes.
    ///
    /// # Errors
    /// There are too many.
    pub fn apply(&mut self, add: bool, tuple: &TupleRow<'_>) -> Result<bool, Full> {
        self.graph.apply(add, tuple)
    }

    /// Merges all tuples into one base.
    ///
    /// # Errors
    /// There are too many.
    pub fn compacted(&self) -> Result<Self, Full> {
        let mut graph = self.graph.compacted()?;
        let rules = Arc::new(Bound::new(Arc::clone(&self.rules.model), &mut graph)?);
        Ok(Self { graph, rules, budget: self.budget })
    }

    /// Number of tuples.
    #[must_use]
    pub const fn tuples(&self) -> u64 {
        self.graph.tuples()
    }

    /// Whether the subject holds each relation, with the path when it does.
    #[must_use]
    pub fn check(&self, subject: &SubjectRef, asks: &[Ask]) -> Vec<(Held, String)> {
        let search = Search::new(&self.graph, &self.rules, subject, asks, states(self.budget));
        search.run().into_iter().map(|found| (found.held, found.path)).collect()
    }

    /// Sorted ids of all objects of a type on which the subject holds a relation; `None` when the budget is exceeded.
    #[must_use]
    pub fn objects(&self, subject: &SubjectRef, object_type: &str, relation: &str) -> Option<Vec<String>> {
        let budget = states(self.budget);
        let found = reach::objects(&self.graph, &self.rules, subject, (object_type, relation), budget);
        found.ok().map(|nodes| self.ids(&nodes))
    }

    /// Sorted ids of all subjects of a type and relation (empty for plain subjects) that hold a relation; `None` when
    /// the budget is exceeded.
    #[must_use]
    pub fn subjects(&self, ask: &Ask, wanted: (&str, &str)) -> Option<Vec<String>> {
        let found = reach::subjects(&self.graph, &self.rules, ask, wanted, states(self.budget));
        found.ok().map(|nodes| self.ids(&nodes))
    }

    /// The tree that shows why a relation is or is not held.
    #[must_use]
    pub fn tree(&self, subject: &SubjectRef, ask: &Ask) -> Option<Tree> {
        tree::plant(&self.graph, &self.rules, subject, ask, Shown::All, states(self.budget))
    }

    fn ids(&self, nodes: &[Node]) -> Vec<String> {
        let mut ids: Vec<String> = nodes.iter().map(|node| self.graph.names.id(*node)).collect();
        ids.sort_unstable();
        ids
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use contract::decision::ObjectRef;
    use contract::fragment::Expression;

    use super::*;
    use crate::engine::graph::search::Progress;

    const BUDGET: usize = 1_000;
    const ASKS: usize = 100;

    /// Group chains longer than the budget, and a subject in so many groups that searching from it is never cheaper.
    fn chains() -> FixedGraph {
        let member = BTreeMap::from([("member".to_owned(), Expression::This)]);
        let types = BTreeMap::from([("user".to_owned(), BTreeMap::new()), ("group".to_owned(), member)]);
        let model = Arc::new(Model::compile(0, &types, &BTreeMap::new()).expect("each type once"));
        let mut members = Vec::new();
        for index in 0..5 * BUDGET {
            members.push((format!("ann{index}"), "user", "ann".to_owned(), ""));
        }
        for chain in 0..ASKS {
            for index in 0..2 * BUDGET {
                let (from, to) = (format!("{chain}-{index}"), format!("{chain}-{}", index + 1));
                members.push((from, "group", to, "member"));
            }
        }
        let tuple = |(object_id, subject_type, subject_id, subject_relation)| TupleRow {
            object_type: "group",
            object_id,
            relation: "member",
            subject_type,
            subject_id,
            subject_relation,
        };
        let rows = members
            .iter()
            .map(|(object, kind, subject, of)| tuple((object.as_str(), *kind, subject.as_str(), *of)));
        FixedGraph::build(&model, rows).expect("room")
    }

    #[test]
    fn many_searches_of_one_question_are_given_up_together() {
        let (fixed, subject) = (chains(), SubjectRef::user("ann"));
        let group = |chain: usize| ObjectRef { kind: "group".to_owned(), id: format!("{chain}-0") };
        let asks: Vec<Ask> = (0..ASKS).map(|chain| Ask::new(group(chain), "member")).collect();
        let mut search = Search::new(&fixed.graph, &fixed.rules, &subject, &asks, BUDGET);
        let mut edges = 0;
        let found = loop {
            match search.advance(1) {
                Progress::More => edges += 1,
                Progress::Done(found) => break found,
            }
        };
        assert!(found.iter().all(|found| found.held == Held::Unknown), "no answer is a no");
        assert!(edges < 10 * BUDGET, "{edges} edges for one question");
    }
}
