//! Relationship questions with known answers, answered by memory and by SQL. The files of `tests/decisions` always run;
//! `AUTHZ_CASE_FILES` (a list of files, separated as in `PATH`) adds others.

use std::path::PathBuf;

use authz::cases::{self, Outcome};
use authz::engine::DEFAULT_BUDGET;
use serde_json::Value;
use sqlx::{Connection, PgConnection, PgPool};

use crate::app::{self, Rows};

#[tokio::test]
async fn every_case_has_its_known_answer() {
    let database = testkit::database().await;
    let engine = app::engine(&database, DEFAULT_BUDGET);
    let mut owner = PgConnection::connect_with(&database.owner_options()).await.expect("a connection");
    let mut all = Outcome::default();
    for file in files() {
        let text = std::fs::read_to_string(&file).expect("a readable file");
        for case in cases::parse(&text).expect("cases") {
            all.join(case.by_memory());
            all.join(case.by_sql(&engine, &mut owner).await.expect("an answer"));
        }
    }
    assert_eq!(all.failed, Vec::<String>::new());
    assert!(all.passed > 0, "no case was run");
    // Visible with `--nocapture`, or with a runner that shows the output of passing tests.
    told(&format!("{} passed, 0 failed", all.passed));
}

#[test]
fn what_is_no_case_is_refused_and_an_unexpected_answer_is_told() {
    for text in ["", "{}", r#"{"cases":[{"id":1,"model":{"a":{"r":{"not":{}}}},"tuples":[]}]}"#] {
        assert!(cases::parse(text).is_err(), "{text}");
    }
    let text = r#"{"more":1,"cases":[{"id":"one","model":{"user":{},"a":{"r":{"this":true}}},"more":2,
        "tuples":[{"objectType":"a","objectId":"1","relation":"r","subjectType":"user","subjectId":"u"}],
        "checks":[{"object":"a:1","relation":"r","subject":"user:u","expected":false}],
        "listObjects":[{"type":"a","relation":"r","subject":"user:u","expected":["a:1"]}],
        "listSubjects":[{"object":"a:1","relation":"r","subjectType":"user","expected":["user:v"]}]}]}"#;
    let outcome = cases::parse(text).expect("one case").pop().expect("one case").by_memory();
    assert_eq!((outcome.passed, outcome.failed.len()), (1, 2), "{:?}", outcome.failed);
}

#[expect(clippy::print_stderr, reason = "the number is what the caller of AUTHZ_CASE_FILES wants to know")]
pub(crate) fn told(text: &str) {
    eprintln!("{text}");
}

fn files() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/decisions");
    let own = std::fs::read_dir(folder).expect("the folder").map(|entry| entry.expect("an entry").path());
    let more = std::env::var_os("AUTHZ_CASE_FILES").unwrap_or_default();
    own.chain(std::env::split_paths(&more).filter(|path| !path.as_os_str().is_empty())).collect()
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
