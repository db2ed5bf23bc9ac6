//! The changes of a graph relative to its base, in one direction. They are persistent, so that a clone is a cheap
//! snapshot.

use std::ops::RangeInclusive;
use std::sync::Arc;

use imbl::OrdMap;

use crate::engine::graph::names::{Node, at};

/// Size of a [`Filter`]: 65,536 bits. Each snapshot with changes copies them; many more changed nodes than that fill it, and
/// every look-up searches the map again.
const FILTER_WORDS: usize = 1_024;

/// The added and removed edges.
#[derive(Clone, Debug, Default)]
pub(super) struct Delta {
    /// By node and packed edge: `true` for an added edge, `false` for a removed one.
    edges: OrdMap<(Node, u64), bool>,
    changed: Filter,
}

impl Delta {
    /// Number of added and removed edges.
    pub(super) fn len(&self) -> usize {
        self.edges.len()
    }

    /// Whether an edge was added (`true`) or removed; `None` when it is as in the base.
    pub(super) fn get(&self, node: Node, edge: u64) -> Option<bool> {
        if self.changed.may_hold(node) { self.edges.get(&(node, edge)).copied() } else { None }
    }

    /// The added and removed edges of a node within a range, in ascending order; `None` when the node surely has none.
    pub(super) fn of(
        &self,
        node: Node,
        range: &RangeInclusive<u64>,
    ) -> Option<impl Iterator<Item = (u64, bool)>> {
        if !self.changed.may_hold(node) {
            return None;
        }
        let changes = self.edges.range((node, *range.start())..=(node, *range.end()));
        Some(changes.map(|((_, edge), added)| (*edge, *added)))
    }

    /// Records a change; one that undoes an earlier change leaves no difference from the base.
    pub(super) fn note(&mut self, node: Node, edge: u64, add: bool) {
        if self.edges.get(&(node, edge)) == Some(&!add) {
            self.edges.remove(&(node, edge));
        } else {
            self.edges.insert((node, edge), add);
            self.changed.insert(node);
        }
    }
}

/// A set of nodes by the low bits of their numbers, so it may also hold nodes that were not inserted. Most nodes of a
/// search have no changes, and one bit tells so without a search of the map.
#[derive(Clone, Debug)]
struct Filter(Arc<[u64]>);

impl Default for Filter {
    fn default() -> Self {
        Self(Arc::from([0; FILTER_WORDS]))
    }
}

impl Filter {
    /// Index of a node's word, and its bit.
    fn place(node: Node) -> (usize, u64) {
        (at(node / u64::BITS) % FILTER_WORDS, 1 << (node % u64::BITS))
    }

    fn may_hold(&self, node: Node) -> bool {
        let (word, bit) = Self::place(node);
        self.0.get(word).is_none_or(|bits| bits & bit != 0)
    }

    fn insert(&mut self, node: Node) {
        let (word, bit) = Self::place(node);
        if let Some(bits) = Arc::make_mut(&mut self.0).get_mut(word) {
            *bits |= bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Nodes 7 and 65,543 share a bit, as do 63 and 65,599.
        #[test]
        fn a_delta_is_a_map_of_the_changes(
            changes in prop::collection::vec(
                (prop::sample::select(vec![7_u32, 65_543, 63, 65_599, 64, u32::MAX]), 0_u64..4, any::<bool>()), 0..40,
            ),
            range in (0_u64..4, 0_u64..4),
        ) {
            let (mut delta, mut map) = (Delta::default(), BTreeMap::new());
            for (node, edge, add) in changes {
                let before = delta.clone();
                let known = map.clone();
                delta.note(node, edge, add);
                if map.get(&(node, edge)) == Some(&!add) {
                    map.remove(&(node, edge));
                } else {
                    map.insert((node, edge), add);
                }
                prop_assert_eq!(before.len(), known.len(), "the snapshot is as it was");
                prop_assert_eq!(before.get(node, edge), known.get(&(node, edge)).copied());
            }
            prop_assert_eq!(delta.len(), map.len());
            for node in [7, 65_543, 63, 65_599, 64, u32::MAX, 8, 0] {
                for edge in 0..4 {
                    prop_assert_eq!(delta.get(node, edge), map.get(&(node, edge)).copied());
                }
                let (from, to) = (range.0.min(range.1), range.0.max(range.1));
                let of: Vec<_> = delta.of(node, &(from..=to)).into_iter().flatten().collect();
                let expected: Vec<_> =
                    map.range((node, from)..=(node, to)).map(|((_, edge), added)| (*edge, *added)).collect();
                prop_assert_eq!(of, expected);
            }
        }
    }

    #[test]
    fn a_node_without_changes_is_not_looked_up() {
        let mut delta = Delta::default();
        delta.note(7, 1, true);
        assert!(delta.changed.may_hold(7) && delta.changed.may_hold(65_543));
        assert!([0, 6, 8, 71, 65_542].iter().all(|node| !delta.changed.may_hold(*node)));
    }
}
