//! Compares both engines with the plain evaluator (`testkit::holdings`) on random models and histories of writes: every
//! object, every relation, users, plain objects and usersets as subjects, cycles, names unknown to the model.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use authz::engine::{DEFAULT_BUDGET, FixedGraph, Model, SqlEngine, TupleRow};
use authz::facts::{Ask, Held, Question, SubjectRef};
use contract::decision::ObjectRef;
use contract::fragment::{Expression, Relations};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use sqlx::PgPool;
use testkit::holdings::{Object, Tuple, holdings};

use crate::app;
use crate::cases;

/// Number of models; `PROPTEST_CASES` overrides it.
const MODELS: u32 = 1_500;
/// Number of models that SQL checks too, because a model costs SQL ten milliseconds.
const SQL_MODELS: u32 = 100;
const TYPES: [&str; 3] = ["a", "b", "c"];
const RELATIONS: [&str; 4] = ["p", "q", "r", "s"];

fn names<const N: usize>(of: [&'static str; N]) -> impl Strategy<Value = String> {
    prop::sample::select(of.to_vec()).prop_map(ToOwned::to_owned)
}

fn expression() -> impl Strategy<Value = Expression> {
    let leaf = prop_oneof![
        3 => Just(Expression::This),
        2 => names(RELATIONS).prop_map(Expression::Computed),
        2 => (names(RELATIONS), names(RELATIONS))
            .prop_map(|(tupleset, computed)| Expression::TupleTo { tupleset, computed }),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| prop::collection::vec(inner, 1..4).prop_map(Expression::Union))
}

/// Users have no relations; every other type has some.
fn model() -> impl Strategy<Value = Relations> {
    let of_type = prop::collection::btree_map(names(RELATIONS), expression(), 1..=4);
    prop::collection::btree_map(names(TYPES), of_type, 1..=3).prop_map(|mut model| {
        model.insert("user".to_owned(), BTreeMap::new());
        model
    })
}

fn object() -> impl Strategy<Value = Object> {
    (names(TYPES), names(["0", "1", "2"]))
}

fn subject() -> impl Strategy<Value = (Object, String)> {
    prop_oneof![
        4 => names(["ann", "ben"]).prop_map(|id| (("user".to_owned(), id), String::new())),
        3 => object().prop_map(|object| (object, String::new())),
        3 => (object(), names(RELATIONS)),
        1 => (object(), Just("unheard".to_owned())),
    ]
}

fn tuple() -> impl Strategy<Value = Tuple> {
    let make = |(object, relation, (subject, subject_relation))| Tuple {
        object,
        relation,
        subject,
        subject_relation,
    };
    (object(), names(RELATIONS), subject()).prop_map(make)
}

fn tuples() -> impl Strategy<Value = BTreeSet<Tuple>> {
    prop::collection::btree_set(tuple(), 0..24)
}

/// A history: initial tuples, then single changes, with new bases in between.
fn history() -> impl Strategy<Value = (BTreeSet<Tuple>, Vec<(bool, Tuple)>)> {
    (tuples(), prop::collection::vec((any::<bool>(), tuple()), 0..12))
}

/// Memory agrees with the model, before and after every history, on checks and lists; SQL does too, for the first
/// models (`AUTHZ_SQL_MODELS` sets how many).
#[test]
fn the_engines_say_what_the_model_means() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let database = runtime.block_on(testkit::database());
    let _inside = runtime.enter();
    let (engine, owner) = (app::engine(&database, DEFAULT_BUDGET), database.owner_pool());
    let (cases, by_sql) = (number("PROPTEST_CASES", MODELS), number("AUTHZ_SQL_MODELS", SQL_MODELS));
    let put = Cell::new(0_u32);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&(model(), history(), subject()), |(relations, (tuples, changes), subject)| {
        let model = Arc::new(Model::compile(0, &relations, &BTreeMap::new()).expect("each type once"));
        let mut graph = FixedGraph::build(&model, tuples.iter().map(row)).expect("room");
        let mut tuples = tuples;
        prop_assert_eq!(by_memory(&graph, &relations, &tuples, &subject), Vec::<String>::new());
        for (index, (add, tuple)) in changes.iter().enumerate() {
            let before = graph.clone();
            let changed = if *add { tuples.insert(tuple.clone()) } else { tuples.remove(tuple) };
            prop_assert_eq!(graph.apply(*add, &row(tuple)), Ok(changed));
            prop_assert_eq!(
                before.tuples() + u64::from(changed && *add),
                graph.tuples() + u64::from(changed && !*add)
            );
            if index % 5 == 4 {
                graph = graph.compacted().expect("room");
            }
        }
        prop_assert_eq!(by_memory(&graph, &relations, &tuples, &subject), Vec::<String>::new());
        put.set(put.get() + 1);
        if put.get() <= by_sql {
            let differing =
                runtime.block_on(differences(&engine, &owner, (&relations, &model), &tuples, &subject));
            prop_assert!(differing.is_empty(), "{differing:#?}");
        }
        Ok(())
    });
    assert!(outcome.is_ok(), "{}", outcome.expect_err("just seen"));
    cases::told(&format!("{} models and histories, {} of them by SQL too", put.get(), put.get().min(by_sql)));
}

fn number(variable: &str, default: u32) -> u32 {
    std::env::var_os(variable).and_then(|text| text.to_str()?.parse().ok()).unwrap_or(default)
}

fn row(tuple: &Tuple) -> TupleRow<'_> {
    TupleRow {
        object_type: &tuple.object.0,
        object_id: &tuple.object.1,
        relation: &tuple.relation,
        subject_type: &tuple.subject.0,
        subject_id: &tuple.subject.1,
        subject_relation: &tuple.subject_relation,
    }
}

/// Whether a path leads from the requested object to the subject over existing tuples.
fn leads(path: &str, ask: &Ask, subject: &Object, tuples: &BTreeSet<Tuple>) -> bool {
    let text = |tuple: &Tuple| {
        let ((object, id), (kind, name)) = (&tuple.object, &tuple.subject);
        let of = if tuple.subject_relation.is_empty() { "" } else { "#" };
        format!("{object}:{id}#{}@{kind}:{name}{of}{}", tuple.relation, tuple.subject_relation)
    };
    let there: BTreeSet<String> = tuples.iter().map(text).collect();
    let mut at = ask.object.to_string();
    for step in path.split(" > ").filter(|step| *step != "the subject is this userset itself") {
        let Some(rest) = step.strip_prefix(&at).filter(|_| there.contains(step)) else { return false };
        let to = rest.split_once('@').filter(|(relation, _)| relation.starts_with('#'));
        let Some((_, to)) = to else { return false };
        at = to.split('#').next().unwrap_or_default().to_owned();
    }
    at == format!("{}:{}", subject.0, subject.1)
}

/// The differences between memory and the plain evaluator: all asks in one question, which share results, each ask
/// alone, and the lists from the subject and from the object.
fn by_memory(
    graph: &FixedGraph,
    relations: &Relations,
    tuples: &BTreeSet<Tuple>,
    (subject, subject_relation): &(Object, String),
) -> Vec<String> {
    let held = holdings(relations, tuples, subject, subject_relation);
    let subject_ref =
        SubjectRef { kind: subject.0.clone(), id: subject.1.clone(), relation: subject_relation.clone() };
    let asks = every_ask();
    let mut wrong = Vec::new();
    for (ask, (said, path)) in asks.iter().zip(graph.check(&subject_ref, &asks)) {
        let alone = graph.check(&subject_ref, std::slice::from_ref(ask)).pop().map(|(held, _)| held);
        let key = ((ask.object.kind.clone(), ask.object.id.clone()), ask.relation.clone());
        let expected = if held.contains(&key) { Held::Yes } else { Held::No };
        if said != expected || alone != Some(expected) || path.is_empty() == (expected == Held::Yes) {
            wrong.push(format!(
                "{ask:?}: {said:?} together, {alone:?} alone, path \"{path}\", expected {expected:?}"
            ));
        }
        if said == Held::Yes && !leads(&path, ask, subject, tuples) {
            wrong.push(format!("{ask:?}: \"{path}\" does not lead to the subject"));
        }
        let tree = graph.tree(&subject_ref, ask).map(|tree| serde_json::json!(tree)["held"] == true);
        if tree.is_some_and(|held| held != (expected == Held::Yes)) {
            wrong.push(format!("{ask:?}: the tree says otherwise"));
        }
    }
    let named = tuples.iter().any(|tuple| tuple.subject == *subject || tuple.object == *subject);
    for (kind, relation) in TYPES.iter().flat_map(|kind| RELATIONS.map(|relation| (*kind, relation))) {
        let of_kind = held.iter().filter(|((of, _), by)| of == kind && by == relation);
        let expected: Vec<String> = of_kind.map(|((_, id), _)| id.clone()).collect();
        if named && graph.objects(&subject_ref, kind, relation).as_ref() != Some(&expected) {
            wrong.push(format!("objects {kind} {relation}, expected {expected:?}"));
        }
    }
    for ask in asks.iter().filter(|_| named) {
        let said =
            graph.subjects(ask, (&subject.0, subject_relation)).is_some_and(|ids| ids.contains(&subject.1));
        let key = ((ask.object.kind.clone(), ask.object.id.clone()), ask.relation.clone());
        if said != held.contains(&key)
            && tuples.iter().any(|tuple| tuple.object == key.0 || tuple.subject == key.0)
        {
            wrong.push(format!("subjects of {ask:?}"));
        }
    }
    wrong
}

async fn differences(
    engine: &SqlEngine,
    owner: &PgPool,
    (relations, model): (&Relations, &Arc<Model>),
    tuples: &BTreeSet<Tuple>,
    (subject, subject_relation): &(Object, String),
) -> Vec<(Ask, Held)> {
    let rows: Vec<_> = tuples
        .iter()
        .map(|tuple| {
            json!({
                "objectType": tuple.object.0, "objectId": tuple.object.1, "relation": tuple.relation,
                "subjectType": tuple.subject.0, "subjectId": tuple.subject.1, "subjectRelation": tuple.subject_relation,
            })
        })
        .collect();
    cases::store(owner, &json!(rows)).await;
    let asks = every_ask();
    let subject_ref =
        SubjectRef { kind: subject.0.clone(), id: subject.1.clone(), relation: subject_relation.clone() };
    let question = Question { subject: subject_ref, places: Vec::new(), asks: asks.clone() };
    let facts = engine.read_by(model, &question).await.expect("an answer");
    let held = holdings(relations, tuples, subject, subject_relation);
    let expected = |ask: &Ask| {
        let key = ((ask.object.kind.clone(), ask.object.id.clone()), ask.relation.clone());
        if held.contains(&key) { Held::Yes } else { Held::No }
    };
    asks.into_iter()
        .map(|ask| (facts.holds(&ask), ask))
        .filter(|(said, ask)| *said != expected(ask))
        .map(|(said, ask)| (ask, said))
        .collect()
}

fn every_ask() -> Vec<Ask> {
    let mut asks = Vec::new();
    for kind in TYPES {
        for id in ["0", "1", "2"] {
            for relation in RELATIONS {
                asks.push(Ask::new(ObjectRef { kind: kind.to_owned(), id: id.to_owned() }, relation));
            }
        }
    }
    asks
}
