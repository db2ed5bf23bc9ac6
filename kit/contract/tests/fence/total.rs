//! Any text yields findings or none: no panic, no stack overflow, no long run.

use std::time::{Duration, Instant};

use contract::fence::{File, MAX_FILE_BYTES, check_file};
use proptest::prelude::*;

/// Fragments of SQL, so that random texts get past the first token.
const PIECES: &[&str] = &[
    "CREATE",
    "TABLE",
    "ALTER",
    "DROP",
    "VIEW",
    "INDEX",
    "TYPE",
    "SEQUENCE",
    "AS",
    "SELECT",
    "FROM",
    "WHERE",
    "WITH",
    "INSERT",
    "INTO",
    "VALUES",
    "UPDATE",
    "SET",
    "DELETE",
    "GRANT",
    "REVOKE",
    "ON",
    "TO",
    "demo",
    "org",
    ".",
    "t",
    "a",
    "(",
    ")",
    "[",
    "]",
    ",",
    ";",
    "1",
    "'x'",
    "\"q\"",
    "$$",
    "$1",
    "::",
    "=",
    "+",
    "-",
    "--",
    "/*",
    "*/",
    "\n",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "NOT",
    "NULL",
    "IN",
    "BETWEEN",
    "AND",
    "OR",
    "CAST",
    "ARRAY",
    "JOIN",
    "UNION",
    "EXISTS",
    "INTERVAL",
    "OVER",
    "EXTRACT",
    "DEFAULT",
    "CHECK",
    "REFERENCES",
    "PRIMARY",
    "KEY",
    "GENERATED",
    "ENUM",
    "COMMENT",
    "EXTENSION",
    "CONSTRAINT",
    "FOREIGN",
    "COLLATE",
    "text",
    "uuid",
    "*",
    "E'\\",
    "U&'",
    "B'",
    "ä",
    "\u{0}",
    "::int",
];

/// Far above the time for the largest file in a debug build on a busy machine, far below that of backtracking.
const LONGEST: Duration = Duration::from_secs(10);

fn judge(text: &str) -> usize {
    let begin = Instant::now();
    let found = check_file("demo", File { name: "0001_a.sql", text }).len();
    assert!(begin.elapsed() < LONGEST, "{:?} for {} bytes", begin.elapsed(), text.len());
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_judged(text in "\\PC{0,200}") {
        judge(&text);
    }

    #[test]
    fn any_row_of_words_is_judged(words in prop::collection::vec(prop::sample::select(PIECES), 0..120)) {
        judge(&words.join(" "));
        judge(&format!("CREATE VIEW demo.v AS SELECT {}", words.join(" ")));
        judge(&format!("CREATE TABLE demo.t({})", words.join(" ")));
    }
}

#[test]
fn whatever_nests_or_chains_is_cut_before_it_costs_anything() {
    let frames: [(&str, &str, &str); 14] = [
        ("(", "1", ")"),
        ("NOT ", "true", ""),
        ("- ", "1", ""),
        ("1 + ", "1", ""),
        ("", "1", "::int"),
        ("", "a", " IS NULL"),
        ("", "a", "[1]"),
        ("(SELECT ", "1", ")"),
        ("CASE WHEN a THEN ", "1", " ELSE 2 END"),
        ("f(", "1", ")"),
        ("CAST(", "1", " AS int)"),
        ("ARRAY[", "1", "]"),
        ("EXISTS (SELECT ", "1", ")"),
        ("", "1", " UNION SELECT 1"),
    ];
    for (before, inner, after) in frames {
        for times in [10, 12, 13, 40, 300, 740, 1_500, 20_000] {
            let nested = format!("{}{inner}{}", before.repeat(times), after.repeat(times));
            judge(&format!("CREATE VIEW demo.v AS SELECT {nested}"));
            judge(&format!("CREATE VIEW demo.v AS SELECT * FROM {nested}"));
            judge(&format!("UPDATE demo.t SET a = {nested} WHERE {nested}"));
        }
    }
}

#[test]
fn a_file_is_read_up_to_its_limit_and_not_beyond() {
    let row = "INSERT INTO demo.kinds(key) VALUES ('a');\n";
    let full = row.repeat(MAX_FILE_BYTES / row.len());
    let pad = " ".repeat(MAX_FILE_BYTES - full.len());
    assert_eq!(judge(&format!("{full}{pad}")), 0);
    assert_eq!(judge(&format!("{full}{pad} ")), 1);
}

/// A problem repeated many times in one statement, and a long text in every message, are reported up to a limit.
#[test]
fn a_statement_made_to_be_slow_is_judged_as_fast_as_any() {
    let tables =
        |name: &dyn Fn(usize) -> String, count: usize| (0..count).map(name).collect::<Vec<_>>().join(", ");
    let rights = vec!["TRIGGER"; 1_000].join(", ");
    let inside = tables(&|at| format!("demo.t{at}"), 20_000);
    let outside = tables(&|at| format!("org.t{at}"), 20_000);
    let calls = tables(&|at| format!("lower('a') f{at}, x{at}"), 8_000);
    for text in [
        format!("GRANT {rights} ON {inside} TO platform_demo;"),
        format!("GRANT SELECT ON {outside} TO platform_demo;"),
        format!("DROP TABLE {outside};"),
        format!("CREATE VIEW demo.v AS SELECT 1 FROM {outside};"),
        format!("CREATE VIEW demo.v AS SELECT 1 FROM {calls};"),
    ] {
        let begun = Instant::now();
        let found = judge(&text);
        assert!((1..=100).contains(&found), "{found} problems");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?} for {}", begun.elapsed(), &text[..40]);
    }
}
