//! `good/*.sql` pass; `bad/*.sql` violate exactly the rules in their line `-- refused: rule, rule`. All of them are
//! written for the module `demo`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use contract::fence::{File, Finding, Rule, check, check_file};

const LEAST_FILES: usize = 120;

fn corpus(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fence").join(folder);
    let entries = fs::read_dir(folder).expect("the corpus");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let mut files: Vec<(String, String)> = paths
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).expect("a readable file"))
        })
        .collect();
    files.sort();
    files
}

fn lines(findings: &[Finding]) -> String {
    findings.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn good_files_pass() {
    let mut problems = Vec::new();
    for (name, text) in corpus("good") {
        problems.extend(check_file("demo", File { name: &name, text: &text }));
    }
    assert!(problems.is_empty(), "{}", lines(&problems));
}

#[test]
fn bad_files_break_the_rules_they_name_and_no_other() {
    let mut wrong = Vec::new();
    for (name, text) in corpus("bad") {
        let named = text.lines().find_map(|line| line.strip_prefix("-- refused: ")).expect("what is refused");
        let expected: BTreeSet<&str> = named.split(", ").collect();
        let findings = check_file("demo", File { name: &name, text: &text });
        let found: BTreeSet<&str> = findings.iter().map(|finding| finding.rule.as_str()).collect();
        if found != expected {
            wrong.push(format!("{name}: expected {expected:?}, found {found:?}\n{}", lines(&findings)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_has_a_refused_file_and_there_are_enough_of_both() {
    let (good, bad) = (corpus("good"), corpus("bad"));
    assert!(good.len() + bad.len() >= LEAST_FILES, "{} and {}", good.len(), bad.len());
    let named: BTreeSet<String> = bad
        .iter()
        .filter_map(|(_, text)| text.lines().find_map(|line| line.strip_prefix("-- refused: ")))
        .flat_map(|line| line.split(", ").map(ToOwned::to_owned).collect::<Vec<_>>())
        .collect();
    // These two rules concern file names, and are tested next to their implementation.
    let of_names = [Rule::FileName, Rule::Numbering];
    for rule in Rule::ALL.into_iter().filter(|rule| !of_names.contains(rule)) {
        assert!(named.contains(rule.as_str()), "no file is refused by {rule}");
    }
}

#[test]
fn a_finding_says_file_statement_and_line() {
    let text = "-- one\nCREATE TABLE demo.a(id uuid);\n\nDROP TABLE\n  org.members;\n";
    let findings = check("demo", &[File { name: "0001_a.sql", text }]);
    assert_eq!(
        lines(&findings),
        "0001_a.sql: statement 2 (line 4): org.members is outside the module's schema and its audit table \
         (outside_fence)"
    );
}

#[test]
fn names_numbers_and_contents_are_told_together() {
    let file = |name, text| File { name, text };
    let findings =
        check("demo", &[file("0001_a.sql", "BEGIN;"), file("0003_b.sql", ""), file("x.sql", "COMMIT")]);
    let found: Vec<(&str, Rule)> =
        findings.iter().map(|finding| (finding.file.as_str(), finding.rule)).collect();
    assert_eq!(
        found,
        [
            ("x.sql", Rule::FileName),
            ("0003_b.sql", Rule::Numbering),
            ("0001_a.sql", Rule::Transaction),
            ("x.sql", Rule::Transaction),
        ]
    );
}
