//! The files of the module contract agree with each other and with the program.

use std::panic::{AssertUnwindSafe, catch_unwind};

use example_tasks::{BUNDLE, PORT, operations};
use service::{Bundle, Operation};
use testkit::module::contract_files;

#[test]
fn they_say_what_the_program_does() {
    contract_files::check(&BUNDLE, PORT, operations().table(), &[operations::LIST_ALL], &[]);
}

fn holds(bundle: &Bundle, table: &[Operation]) -> bool {
    let check = || contract_files::check(bundle, PORT, table, &[operations::LIST_ALL], &[]);
    catch_unwind(AssertUnwindSafe(check)).is_ok()
}

/// `text` with the first `from` after `after` replaced by `to`.
#[expect(clippy::expect_used, reason = "a test that changes nothing must not pass")]
fn changed(text: &str, after: &str, from: &str, to: &str) -> &'static str {
    let (head, tail) = text.split_once(after).expect("the file holds it");
    assert!(tail.contains(from), "{from} after {after}");
    format!("{head}{after}{}", tail.replacen(from, to, 1)).leak()
}

#[test]
fn a_difference_is_found_whichever_side_it_is_on() {
    let binding = operations();
    let table = binding.table();
    let document = |after, from, to| Bundle { openapi: changed(BUNDLE.openapi, after, from, to), ..BUNDLE };
    let fragment = |after, from, to| Bundle { fragment: changed(BUNDLE.fragment, after, from, to), ..BUNDLE };
    let manifest = |after, from, to| Bundle { manifest: changed(BUNDLE.manifest, after, from, to), ..BUNDLE };
    for (what, bundle) in [
        ("operationId", document("", "\"getTask\"", "\"readTask\"")),
        ("method", document("\"/v1/companies/{companyId}/tasks/{taskId}\"", "\"put\"", "\"patch\"")),
        ("feature", document("\"x-authz\"", "tasks.tasks.list", "tasks.tasks.create")),
        ("object", document("\"x-authz\"", "company_module", "tasks_task")),
        ("relation", document("\"x-authz\"", "\"member\"", "\"admin\"")),
        ("operator", document("\"x-authz\"", "false", "true")),
        ("required modules", document("\"x-required-modules\"", "\"tasks\"", "\"docs\"")),
        ("shared component", document("\"Unavailable\": {", "\"description\"", "\"summary\"")),
        ("feature's key", fragment("\"features\"", "tasks.tasks.list\"", "tasks.tasks.lists\"")),
        ("feature's object", fragment("\"features\"", "\"company_module\"", "\"tasks_task\"")),
        ("feature's relation", fragment("\"features\"", "\"member\"", "\"admin\"")),
        ("feature's rule", fragment("\"features\"", "\"relation\"", "\"module_eligibility\"")),
        ("port", manifest("\"port\"", "8", "9")),
        ("key", manifest("\"moduleKey\"", "tasks", "chores")),
    ] {
        assert!(!holds(&bundle, table), "another {what}");
    }
    for at in 0..table.len() {
        let without: Vec<Operation> =
            table.iter().enumerate().filter(|(place, _)| *place != at).map(|(_, row)| *row).collect();
        assert!(!holds(&BUNDLE, &without), "without {}", table[at].id);
        let mut other = table.to_vec();
        other[at].feature = table[(at + 1) % table.len()].feature;
        assert!(!holds(&BUNDLE, &other), "another decision of {}", table[at].id);
        other.copy_from_slice(table);
        other[at].idempotent = !other[at].idempotent;
        assert!(!holds(&BUNDLE, &other), "Idempotency-Key of {}", table[at].id);
    }
    assert!(holds(&BUNDLE, table), "control: nothing changed");
}
