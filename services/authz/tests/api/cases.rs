//! Relationship checks with known answers, as data: `{cases: [{id, model, tuples, checks}]}`, an effective model in the
//! fragment grammar. The files of `tests/decisions` always run; `AUTHZ_CASE_FILES` (a list of files, separated as in
//! `PATH`) adds others.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use authz::engine::{DEFAULT_BUDGET, Model, SqlEngine};
use authz::facts::{Ask, Held, Question, SubjectRef};
use contract::decision::ObjectRef;
use contract::fragment::{Expression, Relations};
use serde_json::Value;
use sqlx::PgPool;

use crate::app::{self, Rows};

#[tokio::test]
async fn every_case_has_its_known_answer() {
    let database = testkit::database().await;
    let engine = app::engine(&database, DEFAULT_BUDGET);
    let owner = database.owner_pool();
    let (mut passed, mut failed) = (0_usize, Vec::new());
    for file in files() {
        let text = std::fs::read_to_string(&file).expect("a readable file");
        let cases: Value = serde_json::from_str(&text).expect("JSON");
        for case in cases["cases"].as_array().expect("cases") {
            let wrong = run(&engine, &owner, case).await;
            passed += case["checks"].as_array().map_or(0, Vec::len) - wrong.len();
            failed
                .extend(wrong.into_iter().map(|check| format!("{} {} {check}", file.display(), case["id"])));
        }
    }
    assert!(failed.is_empty(), "{passed} passed, {} failed:\n{}", failed.len(), failed.join("\n"));
    assert!(passed > 0, "no case was run");
    // Shown by `--nocapture`, or by a runner that shows the output of tests that pass.
    eprintln_line(&format!("{passed} passed, 0 failed"));
}

#[expect(clippy::print_stderr, reason = "the number is what the caller of AUTHZ_CASE_FILES wants to know")]
fn eprintln_line(text: &str) {
    eprintln!("{text}");
}

fn files() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/decisions");
    let own = std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let more = std::env::var_os("AUTHZ_CASE_FILES").unwrap_or_default();
    own.chain(std::env::split_paths(&more).filter(|path| !path.as_os_str().is_empty())).collect()
}

/// The checks of one case that came out wrong.
async fn run(engine: &SqlEngine, owner: &PgPool, case: &Value) -> Vec<Value> {
    store(owner, &case["tuples"]).await;
    let model = model(&case["model"]);
    let mut wrong = Vec::new();
    for check in case["checks"].as_array().into_iter().flatten() {
        let question = question(check);
        let facts = engine.read_by(&model, &question).await.expect("an answer");
        let held = facts.holds(&question.asks[0]);
        assert_ne!(held, Held::Unknown, "within the budget");
        if Some(held == Held::Yes) != check["expected"].as_bool() {
            wrong.push(check.clone());
        }
    }
    wrong
}

fn question(check: &Value) -> Question {
    let text = |name: &str| check[name].as_str().expect("a text");
    let (kind, id) = text("object").split_once(':').expect("type:id");
    let object = ObjectRef { kind: kind.to_owned(), id: id.to_owned() };
    let asks = vec![Ask::new(object, text("relation"))];
    Question { subject: subject(text("subject")), places: Vec::new(), asks }
}

fn subject(text: &str) -> SubjectRef {
    let (object, relation) = text.split_once('#').unwrap_or((text, ""));
    let (kind, id) = object.split_once(':').expect("type:id");
    SubjectRef { kind: kind.to_owned(), id: id.to_owned(), relation: relation.to_owned() }
}

/// Replaces all tuples.
pub(crate) async fn store(owner: &PgPool, tuples: &Value) {
    Rows(owner.clone()).run("TRUNCATE authz.tuple").await;
    let insert = r#"INSERT INTO authz.tuple
        SELECT "objectType", "objectId", relation, "subjectType", "subjectId", coalesce("subjectRelation", ''), 'grant'
          FROM jsonb_to_recordset($1) AS t("objectType" text, "objectId" text, relation text,
            "subjectType" text, "subjectId" text, "subjectRelation" text)
        ON CONFLICT DO NOTHING"#;
    sqlx::query(insert).bind(tuples).execute(owner).await.expect("the tuples");
}

fn model(types: &Value) -> Arc<Model> {
    let relations = |of_type: &Value| -> BTreeMap<String, Expression> {
        let entries = of_type.as_object().expect("relations").iter();
        entries.map(|(name, value)| (name.clone(), expression(value))).collect()
    };
    let types = types.as_object().expect("types").iter();
    let base: Relations = types.map(|(name, of_type)| (name.clone(), relations(of_type))).collect();
    Arc::new(Model::compile(0, &base, &BTreeMap::new()).expect("each type once"))
}

/// An effective model is not a fragment: its types may be base types and need no anchor.
fn expression(value: &Value) -> Expression {
    let text = |value: &Value| value.as_str().expect("a relation").to_owned();
    let (operator, operand) =
        value.as_object().and_then(|members| members.iter().next()).expect("one operator");
    match operator.as_str() {
        "this" => Expression::This,
        "computedUserset" => Expression::Computed(text(operand)),
        "tupleToUserset" => Expression::TupleTo {
            tupleset: text(&operand["tupleset"]),
            computed: text(&operand["computedUserset"]),
        },
        "union" => Expression::Union(operand.as_array().expect("children").iter().map(expression).collect()),
        other => panic!("{other} is no operator"),
    }
}
