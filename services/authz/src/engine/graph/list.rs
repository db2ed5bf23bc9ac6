//! A page of the objects on which a subject holds a relation. The whole list is kept as one number per object; only the
//! ids of the page become text.

use std::cmp::Ordering;

use contract::decision::ObjectRef;
use contract::grants::company_module_id;

use crate::engine::answers::{Listing, Window};
use crate::engine::facts::{Held, SubjectRef};
use crate::engine::graph::names::{Names, Node};
use crate::engine::graph::reach;
use crate::engine::graph::search::Search;
use crate::engine::graph::words::Word;
use crate::engine::graph::{Graph, View, Way};

/// The ids of one page and the number of objects in the whole list.
pub(crate) struct Listed {
    pub(crate) ids: Vec<String>,
    pub(crate) total: usize,
}

/// Searches from the subject and, when that exceeds the budget, from the module's objects. `None` when the budget is
/// not enough for either.
pub(crate) fn page(view: &View, subject: &SubjectRef, listing: &Listing, budget: usize) -> Option<Listed> {
    let View { graph, rules } = view;
    let wanted = (listing.object_type.as_str(), listing.relation.as_str());
    let id = company_module_id(listing.company, &listing.module);
    let anchor = ObjectRef { kind: "company_module".to_owned(), id };
    let nodes = match reach::objects(graph, rules, subject, wanted, budget) {
        Ok(mut nodes) => {
            retain_anchored(graph, &anchor, &mut nodes);
            nodes
        }
        Err(reach::Exhausted) => held(view, subject, listing, &anchor, budget)?,
    };
    Some(Listed { total: nodes.len(), ids: window(&graph.names, nodes, listing.window) })
}

/// Keeps the objects that are anchored to this module in this company and to nothing else.
fn retain_anchored(graph: &Graph, anchor: &ObjectRef, objects: &mut Vec<Node>) {
    let relation = graph.words.find(&anchor.kind);
    let Some((relation, anchor)) = relation.zip(graph.node(&anchor.kind, &anchor.id)) else {
        objects.clear();
        return;
    };
    objects.retain(|object| {
        let (mut here, mut elsewhere) = (false, false);
        graph.each(Way::Forward, *object, relation, Word::NONE..=Word::NONE, |edge| {
            if edge.node == anchor {
                here = true;
            } else {
                elsewhere |= graph.names.kind(edge.node) == relation;
            }
        });
        here && !elsewhere
    });
}

/// The module's objects on which the subject holds the relation; `None` when the budget is exceeded.
fn held(
    view: &View,
    subject: &SubjectRef,
    listing: &Listing,
    anchor: &ObjectRef,
    budget: usize,
) -> Option<Vec<Node>> {
    let View { graph, rules } = view;
    let Some(relation) = graph.words.find(&listing.relation) else { return Some(Vec::new()) };
    let mut nodes = reach::anchored(graph, anchor, &listing.object_type);
    retain_anchored(graph, anchor, &mut nodes);
    let mut search = Search::of_states(graph, rules, subject, nodes.len(), budget);
    let mut is_known = true;
    nodes.retain(|node| {
        let held = if is_known { search.holds((*node, relation)) } else { Held::Unknown };
        is_known &= held != Held::Unknown;
        held == Held::Yes
    });
    is_known.then_some(nodes)
}

/// The ids of one window of the nodes, ordered by id; sorts only the window.
fn window(names: &Names, mut nodes: Vec<Node>, window: Window) -> Vec<String> {
    let by_id = |one: &Node, other: &Node| -> Ordering { names.compare(*one, *other) };
    if window.skip >= nodes.len() {
        return Vec::new();
    }
    nodes.select_nth_unstable_by(window.skip, by_id);
    let mut rest = nodes.split_off(window.skip);
    if window.take < rest.len() {
        rest.select_nth_unstable_by(window.take, by_id);
        rest.truncate(window.take);
    }
    rest.sort_unstable_by(by_id);
    rest.into_iter().map(|node| names.id(node)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::graph::{GraphBuilder, TupleRow};

    #[test]
    fn every_window_is_what_sorting_all_would_give() {
        let mut builder = GraphBuilder::default();
        let mut ids: Vec<String> =
            (0..97_u128).map(|number| uuid::Uuid::from_u128(number << 97).to_string()).collect();
        ids.extend(["", "a", "0-0", "ü", "\u{1}x", "zz"].map(ToOwned::to_owned));
        for object_id in &ids {
            let row = TupleRow {
                object_type: "doc",
                object_id,
                relation: "viewer",
                subject_type: "user",
                subject_id: "ann",
                subject_relation: "",
            };
            builder.push(&row).expect("room");
        }
        let graph = builder.finish().expect("room");
        let nodes: Vec<Node> = ids.iter().filter_map(|id| graph.node("doc", id)).collect();
        ids.sort_unstable();
        for skip in [0, 1, 50, ids.len() - 1, ids.len(), usize::MAX] {
            for take in [0, 1, 10, ids.len(), usize::MAX] {
                let expected: Vec<_> = ids.iter().skip(skip).take(take).cloned().collect();
                assert_eq!(
                    window(&graph.names, nodes.clone(), Window { skip, take }),
                    expected,
                    "{skip} {take}"
                );
            }
        }
    }
}
