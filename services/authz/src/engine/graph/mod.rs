//! The tuples as a graph, forward (object to subject) and reverse (subject to object). An edge takes eight bytes, the
//! edges of a node are sorted and contiguous, and this base never changes. Later additions and removals are in
//! persistent maps beside it, so that cloning a graph is a cheap snapshot that no later change affects. Only the feed
//! changes a graph, so there are no locks.

mod delta;
pub(crate) mod fixed;
pub(crate) mod list;
pub(crate) mod load;
pub(crate) mod names;
pub(crate) mod own;
pub(crate) mod reach;
pub(crate) mod rules;
pub(crate) mod search;
pub(crate) mod tree;
pub(crate) mod words;

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::engine::graph::delta::Delta;
use crate::engine::graph::names::{Names, NamesBuilder, Node, at};
use crate::engine::graph::rules::Bound;
use crate::engine::graph::words::{Full, Word, Words};

/// Share of changed edges at which a new base pays off: 1/20 of the base (5 %)…
const COMPACT_SHARE: u64 = 20;
/// …but never fewer than this, which is as few as take no time in searches. A base of 5,000 tuples is built in a
/// millisecond; a smaller one would be rebuilt for a few changes.
const COMPACT_LEAST: u64 = 256;

/// Maximum number of recent edges that [`Graph::degree`] counts, because counting them costs time.
pub(crate) const MOST_COUNTED: usize = 256;

/// The graph and the model of one moment.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) graph: Graph,
    pub(crate) rules: Arc<Bound>,
}

/// The six columns of a tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TupleRow<'a> {
    /// Type of the object.
    pub object_type: &'a str,
    /// Id of the object.
    pub object_id: &'a str,
    /// The relation.
    pub relation: &'a str,
    /// Type of the subject.
    pub subject_type: &'a str,
    /// Id of the subject.
    pub subject_id: &'a str,
    /// Empty for the subject itself.
    pub subject_relation: &'a str,
}

/// One end of a tuple, seen from the other: forward `(relation, subject relation, subject)`, reverse `(subject
/// relation, relation, object)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Edge {
    pub(crate) near: Word,
    pub(crate) far: Word,
    pub(crate) node: Node,
}

impl Edge {
    fn packed(self) -> u64 {
        u64::from(self.near.0) << 48 | u64::from(self.far.0) << 32 | u64::from(self.node)
    }

    #[expect(clippy::many_single_char_names, reason = "the eight bytes of a number have no better names")]
    fn unpacked(packed: u64) -> Self {
        let [a, b, c, d, e, f, g, h] = packed.to_be_bytes();
        let word = |high, low| Word(u16::from_be_bytes([high, low]));
        Self { near: word(a, b), far: word(c, d), node: u32::from_be_bytes([e, f, g, h]) }
    }

    fn range(near: Word, far: RangeInclusive<Word>) -> RangeInclusive<u64> {
        let edge = |far, node| Self { near, far, node }.packed();
        edge(*far.start(), 0)..=edge(*far.end(), u32::MAX)
    }
}

/// The direction of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Forward,
    Reverse,
}

/// The edges of every node of the base.
#[derive(Debug, Default)]
struct Edges {
    /// The end of each node's edges.
    ends: Vec<u32>,
    packed: Vec<u64>,
}

impl Edges {
    fn of(&self, node: Node) -> &[u64] {
        let begin =
            node.checked_sub(1).and_then(|before| self.ends.get(at(before))).map_or(0, |begin| at(*begin));
        let end = self.ends.get(at(node)).map_or(begin, |end| at(*end));
        self.packed.get(begin..end).unwrap_or_default()
    }

    fn within(&self, node: Node, range: &RangeInclusive<u64>) -> &[u64] {
        let all = self.of(node);
        let begin = all.partition_point(|edge| edge < range.start());
        let end = all.partition_point(|edge| edge <= range.end());
        all.get(begin..end).unwrap_or_default()
    }

    /// Builds the edges from pairs in any order.
    fn build(nodes: u32, pairs: &mut Vec<(Node, u64)>) -> Result<Self, Full> {
        pairs.sort_unstable();
        pairs.dedup();
        let mut ends = Vec::with_capacity(at(nodes));
        let mut end = 0;
        for node in 0..nodes {
            while pairs.get(at(end)).is_some_and(|(of, _)| *of == node) {
                end = end.checked_add(1).ok_or(Full("tuples"))?;
            }
            ends.push(end);
        }
        Ok(Self { ends, packed: pairs.iter().map(|(_, edge)| *edge).collect() })
    }
}

#[derive(Debug, Default)]
struct Base {
    forward: Edges,
    reverse: Edges,
}

/// All tuples of one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) names: Names,
    pub(crate) words: Arc<Words>,
    base: Arc<Base>,
    forward: Delta,
    reverse: Delta,
    tuples: u64,
    changes: u64,
}

impl Graph {
    /// Number of tuples.
    pub(crate) const fn tuples(&self) -> u64 {
        self.tuples
    }

    /// Number of changes: two graphs of one feed with the same number hold the same tuples.
    pub(crate) const fn changes(&self) -> u64 {
        self.changes
    }

    /// The node of an object or subject that some tuple names.
    pub(crate) fn node(&self, kind: &str, id: &str) -> Option<Node> {
        self.names.find(self.words.find(kind)?, id)
    }

    /// The name of a node, `type:id`.
    pub(crate) fn name(&self, node: Node) -> String {
        [self.words.text(self.names.kind(node)), ":", &self.names.id(node)].concat()
    }

    fn side(&self, way: Way) -> (&Edges, &Delta) {
        match way {
            Way::Forward => (&self.base.forward, &self.forward),
            Way::Reverse => (&self.base.reverse, &self.reverse),
        }
    }

    /// Whether a tuple exists.
    pub(crate) fn contains(&self, object: Node, edge: Edge) -> bool {
        let packed = edge.packed();
        match self.forward.get(object, packed) {
            Some(added) => added,
            None => self.base.forward.of(object).binary_search(&packed).is_ok(),
        }
    }

    /// Visits the edges of a node with one near word and a range of far words.
    pub(crate) fn each(
        &self,
        way: Way,
        node: Node,
        near: Word,
        far: RangeInclusive<Word>,
        mut take: impl FnMut(Edge),
    ) {
        let range = Edge::range(near, far);
        let (edges, delta) = self.side(way);
        let base = edges.within(node, &range);
        let mut removed = Vec::new();
        if let Some(changes) = delta.of(node, &range) {
            for (edge, added) in changes {
                if added { take(Edge::unpacked(edge)) } else { removed.push(edge) }
            }
        }
        for edge in base {
            if removed.is_empty() || removed.binary_search(edge).is_err() {
                take(Edge::unpacked(*edge));
            }
        }
    }

    /// Number of edges that [`Self::each`] would look at; of the recent ones it counts at most [`MOST_COUNTED`].
    pub(crate) fn degree(&self, way: Way, node: Node, near: Word, far: RangeInclusive<Word>) -> usize {
        let range = Edge::range(near, far);
        let (edges, delta) = self.side(way);
        let changed = delta.of(node, &range).map_or(0, |changes| changes.take(MOST_COUNTED).count());
        edges.within(node, &range).len().saturating_add(changed)
    }

    /// Whether a node surely has no edges; one that recently changed counts as having some.
    pub(crate) fn is_without_edges(&self, way: Way, node: Node) -> bool {
        let (edges, delta) = self.side(way);
        let changes = || delta.of(node, &(u64::MIN..=u64::MAX));
        edges.of(node).is_empty() && changes().is_none_or(|mut changes| changes.next().is_none())
    }

    /// Adds or removes a tuple; returns false when nothing changes.
    pub(crate) fn apply(&mut self, add: bool, row: &TupleRow<'_>) -> Result<bool, Full> {
        let words = [row.object_type, row.relation, row.subject_type, row.subject_relation];
        if words.iter().any(|text| self.words.find(text).is_none()) {
            let own = Arc::make_mut(&mut self.words);
            for text in words {
                own.intern(text)?;
            }
        }
        let [object_type, relation, subject_type, subject_relation] =
            words.map(|text| self.words.find(text).unwrap_or(Word::NONE));
        let object = self.names.intern(object_type, row.object_id)?;
        let subject = self.names.intern(subject_type, row.subject_id)?;
        let forward = Edge { near: relation, far: subject_relation, node: subject };
        let reverse = Edge { near: subject_relation, far: relation, node: object };
        if self.contains(object, forward) == add {
            return Ok(false);
        }
        self.forward.note(object, forward.packed(), add);
        self.reverse.note(subject, reverse.packed(), add);
        self.tuples = if add { self.tuples.saturating_add(1) } else { self.tuples.saturating_sub(1) };
        self.changes = self.changes.wrapping_add(1);
        Ok(true)
    }

    /// Interns words that only the model contains.
    pub(crate) fn learn<'a>(&mut self, texts: impl Iterator<Item = &'a str>) -> Result<(), Full> {
        let words = Arc::make_mut(&mut self.words);
        texts.map(|text| words.intern(text)).try_for_each(|word| word.map(|_| ()))
    }

    /// Whether enough has changed that a new base pays off.
    pub(crate) fn wants_compaction(&self) -> bool {
        let changed = u64::try_from(self.forward.len()).unwrap_or(u64::MAX);
        changed > COMPACT_LEAST.max(self.tuples.checked_div(COMPACT_SHARE).unwrap_or(0))
    }

    /// Merges all tuples into one base and drops unused names.
    pub(crate) fn compacted(&self) -> Result<Self, Full> {
        let live = |node: Node| {
            [Way::Forward, Way::Reverse].iter().any(|way| {
                let mut any = false;
                let (edges, delta) = self.side(*way);
                Self::every(edges, delta, node, |_| any = true);
                any
            })
        };
        let (names, numbers) = self.names.compacted(live)?;
        let forward = self.renumbered(Way::Forward, &numbers)?;
        let reverse = self.renumbered(Way::Reverse, &numbers)?;
        let base = Arc::new(Base { forward, reverse });
        let (words, tuples, changes) = (Arc::clone(&self.words), self.tuples, self.changes);
        Ok(Self { names, words, base, tuples, changes, ..Self::default() })
    }

    fn every(edges: &Edges, delta: &Delta, node: Node, mut take: impl FnMut(u64)) {
        let mut changed = delta.of(node, &(u64::MIN..=u64::MAX)).into_iter().flatten().peekable();
        if changed.peek().is_none() {
            edges.of(node).iter().for_each(|edge| take(*edge));
            return;
        }
        let removed = |edge: &u64| delta.get(node, *edge) == Some(false);
        let mut all: Vec<u64> = edges.of(node).iter().copied().filter(|edge| !removed(edge)).collect();
        all.extend(changed.filter(|(_, added)| *added).map(|(edge, _)| edge));
        all.sort_unstable();
        all.into_iter().for_each(take);
    }

    /// Renumbers the edges. The new numbers keep their order, so the edges stay sorted.
    fn renumbered(&self, way: Way, numbers: &[Option<Node>]) -> Result<Edges, Full> {
        let (edges, delta) = self.side(way);
        let mut made = Edges { ends: Vec::new(), packed: Vec::with_capacity(edges.packed.len()) };
        for (node, number) in (0..).zip(numbers) {
            if number.is_none() {
                continue;
            }
            Self::every(edges, delta, node, |packed| {
                let edge = Edge::unpacked(packed);
                if let Some(Some(node)) = numbers.get(at(edge.node)) {
                    made.packed.push(Edge { node: *node, ..edge }.packed());
                }
            });
            made.ends.push(u32::try_from(made.packed.len()).map_err(|_| Full("tuples"))?);
        }
        made.packed.shrink_to_fit();
        Ok(made)
    }
}

/// Builds a graph while the table is read.
#[derive(Debug, Default)]
pub(crate) struct GraphBuilder {
    names: NamesBuilder,
    words: Words,
    pairs: Vec<(Node, u64)>,
}

impl GraphBuilder {
    /// Adds one tuple, in any order.
    pub(crate) fn push(&mut self, row: &TupleRow<'_>) -> Result<(), Full> {
        let object_type = self.words.intern(row.object_type)?;
        let relation = self.words.intern(row.relation)?;
        let subject_type = self.words.intern(row.subject_type)?;
        let subject_relation = self.words.intern(row.subject_relation)?;
        let object = self.names.intern(object_type, row.object_id)?;
        let node = self.names.intern(subject_type, row.subject_id)?;
        self.pairs.push((object, Edge { near: relation, far: subject_relation, node }.packed()));
        Ok(())
    }

    /// Builds the graph of all tuples pushed.
    pub(crate) fn finish(mut self) -> Result<Graph, Full> {
        let nodes = self.names.len();
        let forward = Edges::build(nodes, &mut self.pairs)?;
        for pair in &mut self.pairs {
            let (object, edge) = (pair.0, Edge::unpacked(pair.1));
            *pair = (edge.node, Edge { near: edge.far, far: edge.near, node: object }.packed());
        }
        let reverse = Edges::build(nodes, &mut self.pairs)?;
        let tuples = u64::try_from(forward.packed.len()).unwrap_or(u64::MAX);
        let base = Arc::new(Base { forward, reverse });
        let (names, words) = (self.names.finish(), Arc::new(self.words));
        Ok(Graph { names, words, base, tuples, ..Graph::default() })
    }
}
