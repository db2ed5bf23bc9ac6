//! Files of the largest size designed to be expensive: long names above many values, and values that are all wrong.
//! Each is parsed about as fast as any other file of its size, and its problems fit a bounded response.

use std::time::{Duration, Instant};

use contract::FieldProblem;
use contract::envelope::MAX_PROBLEMS;
use contract::{fragment, manifest, openapi};
use serde_json::{Value, json};

use crate::cases::{self, with};

/// Far above the time in a debug build on a busy machine, far below the time with one path per value.
const LONGEST: Duration = Duration::from_secs(5);

fn bounded(what: &str, check: impl FnOnce() -> Vec<FieldProblem>) {
    let begun = Instant::now();
    let problems = check();
    assert!(begun.elapsed() < LONGEST, "{what}: {:?}", begun.elapsed());
    assert!((1..=MAX_PROBLEMS + 1).contains(&problems.len()), "{what}: {} problems", problems.len());
    let bytes: usize = problems.iter().map(|problem| problem.path.len() + problem.message.len()).sum();
    assert!(bytes < 2 << 20, "{what}: {bytes} bytes of problems");
}

#[test]
fn of_the_relations() {
    let long = || "n".repeat(1 << 18);
    let wrong = || Value::from(vec![1; 300_000]);
    let deal = |relation: &str, value: Value| {
        let mut of_type = json!({"company_module": {"this": true}});
        of_type[relation] = value;
        of_type
    };
    for (what, relations) in [
        ("a long type above a wide union", json!({long(): deal("seen", json!({"union": wrong()}))})),
        ("a long relation above a wide union", json!({"deal": deal(&long(), json!({"union": wrong()}))})),
        (
            "many types",
            (0..60_000).map(|at| (format!("t{at}"), json!(1))).collect::<serde_json::Map<_, _>>().into(),
        ),
        ("many operators", json!({"deal": deal("seen", many_members("o"))})),
        (
            "a union of unions",
            json!({"deal": deal("seen", json!({"union": vec![json!({"union": vec![1; 256]}); 256]}))}),
        ),
    ] {
        bounded(what, || fragment::parse_relations(&relations, "authzFragment").err().unwrap_or_default());
        let file = with(&cases::sample(cases::FRAGMENT), "/relations", relations).to_string();
        bounded(what, || fragment::parse(&file, "crm").err().unwrap_or_default());
    }
}

#[test]
fn of_the_manifest_and_the_openapi_file() {
    let sample = cases::sample(cases::MANIFEST);
    let needs = vec![json!({"moduleKey": "docs", "versionRange": "*", "required": true}); 16_000];
    for file in [with(&sample, "/dependencies", Value::from(needs)), with(&sample, "/org", many_members("k"))]
    {
        bounded("a manifest", || manifest::parse(&file.to_string()).err().unwrap_or_default());
    }
    let sample = cases::sample(cases::OPENAPI);
    let path = format!("/paths/~1{}", "p".repeat(1 << 18));
    let operation = json!({"get": {"operationId": "a", "x-required-modules": vec![1; 300_000]}});
    for file in [with(&sample, &path, operation), with(&sample, "/paths", many_members("p"))] {
        bounded("an openapi file", || openapi::check(&file.to_string(), "/api/crm", &["crm"]));
    }
}

fn many_members(name: &str) -> Value {
    (0..60_000).map(|at| (format!("{name}{at}"), json!(1))).collect::<serde_json::Map<_, _>>().into()
}
