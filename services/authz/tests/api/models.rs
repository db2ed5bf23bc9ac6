//! The SQL engine against the plain evaluator (`naive.rs`), on random models and tuples: every object, every relation,
//! users, plain objects and usersets as subjects, cycles, names that the model does not know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use authz::engine::{DEFAULT_BUDGET, Model, SqlEngine};
use authz::facts::{Ask, Held, Question, SubjectRef};
use contract::decision::ObjectRef;
use contract::fragment::{Expression, Relations};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::json;
use sqlx::PgPool;

use crate::app;
use crate::cases;
use crate::naive::{self, Object, Tuple};

/// How many models; `PROPTEST_CASES` changes it.
const MODELS: u32 = 150;
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

/// Users have no relations; of the other types each has some.
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

fn tuples() -> impl Strategy<Value = BTreeSet<Tuple>> {
    let tuple = (object(), names(RELATIONS), subject()).prop_map(
        |(object, relation, (subject, subject_relation))| Tuple {
            object,
            relation,
            subject,
            subject_relation,
        },
    );
    prop::collection::btree_set(tuple, 0..24)
}

#[test]
fn the_engine_says_what_the_model_means() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let database = runtime.block_on(testkit::database());
    let _inside = runtime.enter();
    let (engine, owner) = (app::engine(&database, DEFAULT_BUDGET), database.owner_pool());
    let cases =
        std::env::var_os("PROPTEST_CASES").and_then(|text| text.to_str()?.parse().ok()).unwrap_or(MODELS);
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&(model(), tuples(), subject()), |(model, tuples, subject)| {
        let differing = runtime.block_on(differences(&engine, &owner, &model, &tuples, &subject));
        prop_assert!(differing.is_empty(), "{differing:#?}");
        Ok(())
    });
    assert!(outcome.is_ok(), "{}", outcome.expect_err("just seen"));
}

async fn differences(
    engine: &SqlEngine,
    owner: &PgPool,
    relations: &Relations,
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
    let model = Arc::new(Model::compile(0, relations, &BTreeMap::new()).expect("each type once"));
    let asks = every_ask();
    let subject_ref =
        SubjectRef { kind: subject.0.clone(), id: subject.1.clone(), relation: subject_relation.clone() };
    let question = Question { subject: subject_ref, places: Vec::new(), asks: asks.clone() };
    let facts = engine.read_by(&model, &question).await.expect("an answer");
    let held = naive::holdings(relations, tuples, subject, subject_relation);
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
