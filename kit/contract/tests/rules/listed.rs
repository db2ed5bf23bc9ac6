//! The other direction: every problem that the parsers report, for any input, belongs to a listed rule.

use contract::rules::{self, Rule};
use contract::{FieldProblem, fragment, frontend, manifest, openapi};
use proptest::prelude::*;
use serde_json::Value;

use crate::cases::{self, with};
use crate::table::check_relations;

/// The samples' own values, so that a random value often has the right shape.
const WORDS: &[&str] = &[
    "crm",
    "docs",
    "company",
    "^1",
    "1.0.0",
    "/api/crm",
    "open",
    "MIT",
    "deal",
    "owner",
    "viewer",
    "this",
    "union",
    "crm.deals.read",
    "company_module",
    "tupleset",
    "computedUserset",
    "get",
    "servers",
    "/v1/x",
    "$ref",
    "_note",
];

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..70_000).prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
        proptest::sample::select(WORDS).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        // Paths are split at dots, so a name that contains one is reported under the rule of another path.
        let plain = proptest::sample::select(WORDS).prop_filter("dots", |word| !word.contains('.'));
        let name = prop_oneof![plain.prop_map(ToOwned::to_owned), "[a-zA-Zä:@ ]{1,4}"];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((name, inner), 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Every pointer into a value, except the root.
fn pointers(value: &Value) -> Vec<String> {
    let below = |name: &str, inner: &Value| {
        let at = format!("/{}", name.replace('/', "~1"));
        let deeper = pointers(inner).into_iter().map(|rest| format!("{at}{rest}")).collect::<Vec<_>>();
        [vec![at], deeper].concat()
    };
    match value {
        Value::Object(members) => members.iter().flat_map(|(name, inner)| below(name, inner)).collect(),
        Value::Array(items) => {
            items.iter().enumerate().flat_map(|(at, inner)| below(&at.to_string(), inner)).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// The sample of a file with a random value at a random place.
fn changed(file: &'static str) -> impl Strategy<Value = Value> {
    let sample = cases::sample(file);
    let at = proptest::sample::select(pointers(&sample));
    (at, any_json()).prop_map(move |(at, value)| with(&sample, &at, value))
}

fn unlisted(rules: &[Rule], problems: Vec<FieldProblem>) -> Vec<FieldProblem> {
    problems.into_iter().filter(|problem| rules::of(rules, problem).is_none()).collect()
}

/// Problems below `at` concern the relations.
fn unlisted_with_relations(problems: Vec<FieldProblem>, at: &str) -> Vec<FieldProblem> {
    let (inside, outside): (Vec<_>, Vec<_>) =
        problems.into_iter().partition(|problem| problem.path.starts_with(at));
    let below = |problem: FieldProblem| {
        let path = problem.path.strip_prefix(at).unwrap_or_default().trim_start_matches('.').to_owned();
        FieldProblem { path, ..problem }
    };
    let mut found = unlisted(rules::FRAGMENT, outside);
    let inside = inside.into_iter().filter(|problem| problem.path != at || problem.rule == "limit");
    found.extend(unlisted(rules::RELATIONS, inside.map(below).collect()));
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn of_a_manifest(value in changed(cases::MANIFEST)) {
        prop_assert_eq!(unlisted(rules::MANIFEST, manifest::parse(&value.to_string()).err().unwrap_or_default()), vec![]);
    }

    #[test]
    fn of_a_fragment(value in changed(cases::FRAGMENT)) {
        let problems = fragment::parse(&value.to_string(), "crm").err().unwrap_or_default();
        prop_assert_eq!(unlisted_with_relations(problems, "relations"), vec![]);
    }

    #[test]
    fn of_an_apps_relations(value in any_json()) {
        prop_assert_eq!(unlisted_with_relations(check_relations(&value), "authzFragment"), vec![]);
    }

    #[test]
    fn of_an_openapi_file(value in changed(cases::OPENAPI)) {
        prop_assert_eq!(unlisted(rules::OPENAPI, openapi::check(&value.to_string(), "/api/crm", &["crm", "docs"])), vec![]);
    }

    #[test]
    fn of_a_frontend_manifest(value in changed(cases::FRONTEND)) {
        let fragment = fragment::parse(&cases::sample(cases::FRAGMENT).to_string(), "crm").expect("a right fragment");
        prop_assert_eq!(unlisted(rules::FRONTEND, frontend::check(&value.to_string(), &fragment)), vec![]);
    }
}
