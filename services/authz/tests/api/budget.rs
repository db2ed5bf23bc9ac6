//! The budget of a search in memory: past it there is no answer, and it does not matter which side is large.

use std::collections::BTreeMap;
use std::sync::Arc;

use authz::engine::{FixedGraph, Model, TupleRow};
use authz::facts::{Ask, Held, SubjectRef};
use contract::decision::ObjectRef;
use contract::fragment::Expression;

/// A graph of the tuples `group:GROUP#member@SUBJECT`.
fn graph(members: &[(String, SubjectRef)], budget: i64) -> FixedGraph {
    let relations = ["member", "owner"].map(|relation| (relation.to_owned(), Expression::This));
    let types =
        BTreeMap::from([("user".to_owned(), BTreeMap::new()), ("group".to_owned(), relations.into())]);
    let model = Arc::new(Model::compile(0, &types, &BTreeMap::new()).expect("each type once"));
    let rows = members.iter().map(|(group, subject)| TupleRow {
        object_type: "group",
        object_id: group,
        relation: "member",
        subject_type: &subject.kind,
        subject_id: &subject.id,
        subject_relation: &subject.relation,
    });
    FixedGraph::build(&model, rows).expect("room").with_budget(budget)
}

fn group(id: String) -> SubjectRef {
    SubjectRef { kind: "group".to_owned(), id, relation: "member".to_owned() }
}

fn is_member(graph: &FixedGraph, of: &str) -> Held {
    let ask = Ask::new(ObjectRef { kind: "group".to_owned(), id: of.to_owned() }, "member");
    graph.check(&SubjectRef::user("ann"), &[ask])[0].0
}

/// Two chains of twenty groups, one from each side, that do not meet: a no requires one side to be searched completely.
#[test]
fn a_search_at_its_budget_answers_and_past_it_cannot_say() {
    let mut members = vec![("holds0".to_owned(), SubjectRef::user("ann"))];
    for index in 0..20 {
        members.push((format!("asked{index}"), group(format!("asked{}", index + 1))));
        members.push((format!("holds{}", index + 1), group(format!("holds{index}"))));
    }
    let says = |budget| is_member(&graph(&members, budget), "asked0");
    let enough = (1..100).find(|budget| says(*budget) != Held::Unknown).expect("it ends");
    assert!((21..=42).contains(&enough), "one side has 21 states: {enough}");
    assert_eq!(says(enough - 1), Held::Unknown);
    assert!((enough..100).all(|budget| says(budget) == Held::No), "every larger budget gives a no");
    members.push(("asked20".to_owned(), group("holds20".to_owned())));
    assert_eq!(is_member(&graph(&members, 100), "asked0"), Held::Yes);
    assert_eq!(is_member(&graph(&members, 20), "asked0"), Held::Unknown, "a yes needs its path, too");
}

#[test]
fn a_search_that_is_small_from_one_end_needs_little() {
    let many = |index: usize| format!("many{index}");
    // A group with very many members, checked for a user in one group that leads nowhere.
    let mut wide: Vec<_> = (0..1_000).map(|index| ("wide".to_owned(), group(many(index)))).collect();
    wide.push(("lone".to_owned(), SubjectRef::user("ann")));
    assert_eq!(is_member(&graph(&wide, 5), "wide"), Held::No);
    // A user in very many groups, checked for a group that contains none of them.
    let mut member: Vec<_> = (0..1_000).map(|index| (many(index), SubjectRef::user("ann"))).collect();
    member.push(("lone".to_owned(), group("empty".to_owned())));
    assert_eq!(is_member(&graph(&member, 5), "lone"), Held::No);
}

/// Twenty groups without a tuple of their own, each found from the user and from three of the user's other groups.
#[test]
fn a_list_at_its_budget_is_complete_and_past_it_there_is_none() {
    let mut members = Vec::new();
    for index in 0..20 {
        let leaf = format!("leaf{index:02}");
        members.push((leaf.clone(), SubjectRef::user("ann")));
        members.extend((0..3).map(|inner| (leaf.clone(), group(format!("inner{inner}")))));
    }
    members.extend((0..3).map(|inner| (format!("inner{inner}"), SubjectRef::user("ann"))));
    let list =
        |relation, budget| graph(&members, budget).objects(&SubjectRef::user("ann"), "group", relation);
    let mut all: Vec<String> = (0..3).map(|inner| format!("inner{inner}")).collect();
    all.extend((0..20).map(|leaf| format!("leaf{leaf:02}")));
    assert_eq!(list("member", 23), Some(all), "each group counts once");
    assert_eq!(list("member", 22), None);
    // Three groups, and eighty tuples of another relation that are passed over, eight for the price of one.
    assert_eq!(list("owner", 13), Some(Vec::new()));
    assert_eq!(list("owner", 12), None);
}
