//! The rules of the migrations fence, each with one accepted and one refused file of its corpus.

use std::path::Path;

use contract::fence::{File, Rule, check, check_file};
use contract::rules::id_of;

use crate::table::Row;

/// The rule, the most similar good file, and the bad one. The two rules on names have no file.
const PAIRS: [(Rule, &str, &str); 21] = [
    (Rule::Size, "create_table_case_check", "size__deep"),
    (Rule::NotUnderstood, "comments_and_strings", "not_understood__unended_string"),
    (Rule::Statement, "drop_many", "statement__do"),
    (Rule::Transaction, "insert_values", "transaction__begin"),
    (Rule::Concurrently, "create_index", "concurrently__create_index"),
    (Rule::Clause, "create_table_plain", "clause__table_inherits"),
    (Rule::Unqualified, "create_table_foreign_keys", "unqualified__foreign_key_unqualified"),
    (Rule::OutsideFence, "create_view_join", "outside_fence__view_joins_outside"),
    (Rule::AuditAppendOnly, "insert_audit", "audit_append_only__update"),
    (Rule::Extension, "extension", "extension__other_extension"),
    (Rule::SecurityDefiner, "create_view", "security_definer__function"),
    (Rule::SearchPath, "insert_values", "search_path__set"),
    (Rule::Ownership, "alter_many", "ownership__table_owner"),
    (Rule::SchemaMove, "alter_rename", "schema_move__table"),
    (Rule::GrantWithoutOn, "grant", "grant_without_on__role"),
    (Rule::GrantOption, "grant", "grant_option__table"),
    (Rule::GrantRole, "grant", "grant_role__other_module"),
    (Rule::Privilege, "grant_all_tables", "privilege__truncate"),
    (Rule::Type, "create_table_own_type", "type__regclass"),
    (Rule::FunctionCall, "nextval_default", "function_call__default"),
    (Rule::Operator, "create_table_regex_check", "operator__qualified"),
];

/// Tries every pair.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = vec![
        names(Rule::FileName, &["0001_first.sql"], &["1_first.sql"]),
        names(Rule::Numbering, &["0001_a.sql", "0002_b.sql"], &["0001_a.sql", "0003_b.sql"]),
    ];
    rows.extend(PAIRS.map(|(rule, good, bad)| {
        assert_eq!(found("good", good), [], "{rule}");
        assert_eq!(found("bad", bad), [rule], "{bad}");
        let shown = [format!("good/{good}.sql"), format!("bad/{bad}.sql")];
        Row { rule: id_of(rule), shown, path: "statement 1".to_owned() }
    }));
    rows
}

fn found(folder: &str, name: &str) -> Vec<Rule> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fence").join(folder).join(format!("{name}.sql"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    check_file("demo", File { name, text: &text }).into_iter().map(|finding| finding.rule).collect()
}

fn names(rule: Rule, good: &[&str], bad: &[&str]) -> Row {
    let found = |names: &[&str]| -> Vec<Rule> {
        let files: Vec<File<'_>> = names.iter().map(|name| File { name, text: "" }).collect();
        check("demo", &files).into_iter().map(|finding| finding.rule).collect()
    };
    assert_eq!((found(good), found(bad)), (Vec::new(), vec![rule]));
    Row { rule: id_of(rule), shown: [good.join(", "), bad.join(", ")], path: "the file".to_owned() }
}
