//! The engine without its feed: checks of one, three and five hops, hits and misses, with
//! recent changes and without, a batch, a list, a change and a
//! new base, on a graph of some hundred thousand tuples. Compare ratios of two runs on one machine; absolute figures
//! are not meaningful.

#![expect(clippy::expect_used, reason = "a broken premise ends the benchmark")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;

use authz::engine::{FixedGraph, Model, TupleRow};
use authz::facts::{Ask, SubjectRef};
use contract::decision::ObjectRef;
use contract::fragment::{Expression, Relations};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const DOCUMENTS: u64 = 40_000;
const GROUPS: u64 = 2_000;

fn model() -> Arc<Model> {
    let viewer = Expression::Union(vec![Expression::This, Expression::Computed("owner".to_owned())]);
    let of = |relations: Vec<(&str, Expression)>| -> BTreeMap<String, Expression> {
        relations.into_iter().map(|(name, expression)| (name.to_owned(), expression)).collect()
    };
    let types = [
        ("user", of(Vec::new())),
        ("group", of(vec![("member", Expression::This)])),
        ("doc", of(vec![("owner", Expression::This), ("viewer", viewer)])),
    ];
    let base: Relations = types.into_iter().map(|(name, relations)| (name.to_owned(), relations)).collect();
    Arc::new(Model::compile(0, &base, &BTreeMap::new()).expect("each type once"))
}

/// Five levels of groups; each group contains four of the next level.
fn tuples() -> Vec<[String; 6]> {
    let row = |parts: [&str; 6]| parts.map(ToOwned::to_owned);
    let mut tuples = Vec::new();
    for doc in 0..DOCUMENTS {
        let id = doc.to_string();
        tuples.push(row(["doc", &id, "owner", "user", &format!("owner{}", doc % 500), ""]));
        for group in 0..2 {
            let group = format!("0-{}", (doc * 3 + group) % GROUPS);
            tuples.push(row(["doc", &id, "viewer", "group", &group, "member"]));
        }
    }
    for level in 0..5_u64 {
        for group in 0..GROUPS {
            let id = format!("{level}-{group}");
            tuples.push(row(["group", &id, "member", "user", &format!("member{level}-{group}"), ""]));
            for next in 0..4 {
                let below = format!("{}-{}", level + 1, (group * 4 + next * 7_919) % GROUPS);
                if level < 4 {
                    tuples.push(row(["group", &id, "member", "group", &below, "member"]));
                }
            }
        }
    }
    tuples
}

fn rows(tuples: &[[String; 6]]) -> impl Iterator<Item = TupleRow<'_>> {
    tuples.iter().map(|[object_type, object_id, relation, subject_type, subject_id, subject_relation]| {
        TupleRow { object_type, object_id, relation, subject_type, subject_id, subject_relation }
    })
}

fn ask(doc: u64, relation: &str) -> Ask {
    Ask::new(ObjectRef { kind: "doc".to_owned(), id: doc.to_string() }, relation)
}

/// The graph with 5,000 tuples more, on objects and of subjects that it did not have.
fn with_changes(graph: &FixedGraph) -> FixedGraph {
    let mut changed = graph.clone();
    for number in 0..5_000 {
        let (doc, user) = (format!("new{number}"), format!("new-owner{number}"));
        let row = TupleRow {
            object_type: "doc",
            object_id: &doc,
            relation: "owner",
            subject_type: "user",
            subject_id: &user,
            subject_relation: "",
        };
        changed.apply(true, &row).expect("room");
    }
    changed
}

fn checks(criterion: &mut Criterion) {
    let tuples = tuples();
    let graph = FixedGraph::build(&model(), rows(&tuples)).expect("room");
    let changed = with_changes(&graph);
    let mut group = criterion.benchmark_group("check");
    for (name, relation, subject) in [
        ("one hop", "owner", "owner0"),
        ("three hops", "viewer", "member1-0"),
        ("five hops", "viewer", "member3-0"),
        ("one hop, miss", "owner", "nobody"),
        ("five levels, miss", "viewer", "member4-1999"),
    ] {
        let subject = SubjectRef::user(subject);
        let asks = [ask(0, relation)];
        for (after, graph) in [("", &graph), (", after 5,000 changes elsewhere", &changed)] {
            group.bench_function(BenchmarkId::from_parameter(format!("{name}{after}")), |bencher| {
                bencher.iter(|| graph.check(black_box(&subject), &asks));
            });
        }
    }
    let asks: Vec<Ask> = (0..100).map(|doc| ask(doc * 17, "viewer")).collect();
    let subject = SubjectRef::user("member1-0");
    group.bench_function("batch of 100", |bencher| bencher.iter(|| graph.check(black_box(&subject), &asks)));
    group.finish();
    criterion.bench_function("list", |bencher| {
        bencher.iter(|| graph.objects(black_box(&SubjectRef::user("member4-0")), "doc", "viewer"));
    });
    criterion.bench_function("a change, and the snapshot it leaves behind", |bencher| {
        let mut changed = graph.clone();
        let mut add = true;
        let row = TupleRow { subject_id: "new", ..rows(&tuples).next().expect("a tuple") };
        bencher.iter(|| {
            let before = changed.clone();
            changed.apply(add, &row).expect("room");
            add = !add;
            before
        });
    });
    let mut group = criterion.benchmark_group("whole");
    group.sample_size(10);
    group.bench_function("load", |bencher| bencher.iter(|| FixedGraph::build(&model(), rows(&tuples))));
    group.bench_function("new base", |bencher| bencher.iter(|| graph.compacted()));
    group.finish();
}

criterion_group!(benches, checks);
criterion_main!(benches);
