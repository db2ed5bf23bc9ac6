//! The table of all rules: id, the accepted case, the refused case, and the path. It is printed, and compared with the
//! list of rules and with the reviewed table (`UPDATE_GOLDEN=1` rewrites that).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;

use contract::fragment::{self, Fragment, Relations, base_model, missing_targets, parse_relations};
use contract::rules::{self, Rule};
use contract::{FieldProblem, fence, frontend, license, manifest, openapi};
use serde_json::Value;

use crate::cases::{self, Case};
use crate::{between, migrations};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rules/table.txt");
/// The path of the relations in an app's manifest.
const AT: &str = "authzFragment";
/// Longest case that the table shows in full, in characters.
const WIDTH: usize = 52;
/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: usize = 1 << 20;
const APACHE_2_0: &str = include_str!("../../src/license/Apache-2.0.txt");

/// One row: a rule and its two cases, both of which were tried.
pub(crate) struct Row {
    pub(crate) rule: String,
    pub(crate) shown: [String; 2],
    pub(crate) path: String,
}

#[test]
fn every_rule_has_an_accepting_and_a_refusing_case() {
    let mut rows = manifest_rows();
    rows.extend(fragment_rows());
    rows.extend(relations_rows());
    rows.extend(openapi_rows());
    rows.extend(frontend_rows());
    rows.extend(license_rows());
    rows.extend(between::rows());
    rows.extend(migrations::rows());
    let listed = listed();
    let tried: BTreeSet<String> = rows.iter().map(|row| row.rule.clone()).collect();
    let missing: Vec<_> = listed.iter().filter(|id| !tried.contains(*id)).collect();
    let unknown: Vec<_> = tried.iter().filter(|id| !listed.contains(*id)).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "without cases: {missing:?}; not listed: {unknown:?}");
    compare(&render(&rows, listed.len()));
}

/// The id of every rule.
fn listed() -> BTreeSet<String> {
    let lists = [
        rules::MANIFEST,
        rules::FRAGMENT,
        rules::RELATIONS,
        rules::OPENAPI,
        rules::FRONTEND,
        rules::LICENSE,
        rules::BETWEEN,
    ];
    let ids = lists.into_iter().flatten().map(|rule| rule.id.to_owned());
    ids.chain(fence::Rule::ALL.map(rules::id_of)).collect()
}

fn manifest_rows() -> Vec<Row> {
    let check = |text: &str| manifest::parse(text).err().unwrap_or_default();
    rows_of(cases::MANIFEST, rules::MANIFEST, "manifest", check)
}

fn fragment_rows() -> Vec<Row> {
    let check = |text: &str| fragment::parse(text, "crm").err().unwrap_or_default();
    rows_of(cases::FRAGMENT, rules::FRAGMENT, "fragment", check)
}

fn openapi_rows() -> Vec<Row> {
    let check = |text: &str| openapi::check(text, "/api/crm", &["crm", "docs"]);
    rows_of(cases::OPENAPI, rules::OPENAPI, "openapi", check)
}

fn frontend_rows() -> Vec<Row> {
    let fragment: Fragment =
        fragment::parse(&cases::sample(cases::FRAGMENT).to_string(), "crm").expect("the sample is right");
    rows_of(cases::FRONTEND, rules::FRONTEND, "frontend", |text| frontend::check(text, &fragment))
}

/// The cases of one file, and those common to all files.
fn rows_of(file: &str, rules: &[Rule], name: &str, check: impl Fn(&str) -> Vec<FieldProblem>) -> Vec<Row> {
    let mut rows: Vec<Row> = cases::cases(file)
        .into_iter()
        .map(|case| {
            let (accepted, refused) = (check(&case.accepted.to_string()), check(&case.refused.to_string()));
            row(case, rules, &accepted, &refused, str::to_owned)
        })
        .collect();
    let sample = cases::sample(file).to_string();
    let padded = |length: usize| format!("{sample}{}", " ".repeat(length - sample.len()));
    for (rule, good, bad, shown) in [
        ("json", sample.clone(), format!("{sample}}}"), ["the sample", "the sample}"]),
        ("size", padded(MAX_FILE_BYTES), padded(MAX_FILE_BYTES + 1), ["1048576 bytes", "1048577 bytes"]),
    ] {
        assert_eq!(check(&good), [], "{name}.{rule}");
        let id = format!("{name}.{rule}");
        broken(&id, "", rules, &check(&bad), str::to_owned);
        rows.push(Row { rule: id, shown: shown.map(ToOwned::to_owned), path: String::new() });
    }
    assert_eq!(check(&sample), [], "the sample of {name}");
    rows
}

fn relations_rows() -> Vec<Row> {
    let cases = cases::cases(cases::RELATIONS).into_iter();
    cases
        .map(|case| {
            let (accepted, refused) = (check_relations(&case.accepted), check_relations(&case.refused));
            row(case, rules::RELATIONS, &accepted, &refused, |path| {
                let below = path.strip_prefix(AT).expect("the path begins with where the relations stand");
                below.trim_start_matches('.').to_owned()
            })
        })
        .collect()
}

/// The grammar, then the existence of followed relations.
pub(crate) fn check_relations(value: &Value) -> Vec<FieldProblem> {
    let base = base_model();
    let targets = |relations: Relations| missing_targets(&relations, AT, &[&relations, &base]);
    parse_relations(value, AT).map_or_else(|problems| problems, targets)
}

fn license_rows() -> Vec<Row> {
    let changed = APACHE_2_0.replace("royalty-free", "royalty-bearing");
    let refused: Vec<FieldProblem> = license::check("Apache-2.0", &changed).into_iter().collect();
    assert_eq!(license::check("Apache-2.0", APACHE_2_0), None);
    broken("license.text", "", rules::LICENSE, &refused, str::to_owned);
    let shown = ["the canonical text of Apache-2.0", "the same with one word changed"].map(ToOwned::to_owned);
    vec![Row { rule: "license.text".to_owned(), shown, path: String::new() }]
}

fn row(
    case: Case,
    rules: &[Rule],
    accepted: &[FieldProblem],
    refused: &[FieldProblem],
    below: impl Fn(&str) -> String,
) -> Row {
    assert_eq!(accepted, [], "{}: {}", case.rule, case.shown[0]);
    broken(&case.rule, &case.path, rules, refused, below);
    Row { rule: case.rule, shown: case.shown, path: case.path }
}

/// Checks that there is exactly one problem, of this rule, at this path, with a message.
pub(crate) fn broken(
    id: &str,
    path: &str,
    rules: &[Rule],
    problems: &[FieldProblem],
    below: impl Fn(&str) -> String,
) {
    let [problem] = problems else { panic!("{id} at {path}: not one problem: {problems:?}") };
    let problem = FieldProblem { path: below(&problem.path), ..problem.clone() };
    let found = rules::of(rules, &problem).map(|rule| rule.id);
    assert_eq!((found, problem.path.as_str()), (Some(id), path), "{problem:?}");
    assert!(!problem.message.is_empty(), "{id} has no message");
}

fn render(rows: &[Row], rules: usize) -> String {
    let mut table = format!("{:<32} {:<WIDTH$}  {:<WIDTH$}  path\n", "rule", "accepted", "refused");
    for Row { rule, shown: [accepted, refused], path } in rows {
        let line = format!("{rule:<32} {:<WIDTH$}  {:<WIDTH$}  {}", cut(accepted), cut(refused), cut(path));
        writeln!(table, "{}", line.trim_end()).expect("text grows");
    }
    writeln!(table, "{rules} rules, {} pairs of cases, {} files tried", rows.len(), rows.len() * 2)
        .expect("text grows");
    table
}

fn cut(text: &str) -> String {
    let text = text.replace('\n', " ");
    if text.chars().count() <= WIDTH {
        return text;
    }
    let begin: String = text.chars().take(WIDTH - 1).collect();
    format!("{begin}…")
}

fn compare(table: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(GOLDEN, table).expect("the golden file can be written");
    }
    // Not print!, whose output the test runner hides while tests pass.
    std::io::stdout().write_all(table.as_bytes()).expect("the table can be printed");
    let reviewed = std::fs::read_to_string(GOLDEN).expect("the golden file is there");
    assert_eq!(table, reviewed, "run with UPDATE_GOLDEN=1 and read the difference");
}
