//! What stands before every operation, and the probes.

use testkit::Operation;
use testkit::module::{gates, probes};
use uuid::Uuid;

use crate::{start, start_without_database};

fn views() -> [Operation; 5] {
    let operation = |view: &str, feature, relation, operator| Operation {
        method: "GET",
        tail: format!("/documents?view={view}"),
        body: None,
        feature,
        relation,
        operator,
    };
    [
        operation("mine", "docs.documents.list", "member", false),
        operation("shared", "docs.documents.list", "member", false),
        operation("trash", "docs.documents.list", "member", false),
        operation("all", "docs.documents.list_all", "admin", true),
        operation("trash_all", "docs.documents.list_all", "admin", true),
    ]
}

#[tokio::test]
async fn no_operation_does_anything_without_bearer_company_and_decision() {
    let module = start().await;
    for operation in views() {
        gates::check(&module, &operation).await;
    }
    assert!(module.org.requests().is_empty(), "the decision comes before the caller's place");
}

#[tokio::test]
async fn the_list_of_gates_holds_every_documented_operation() {
    let module = start().await;
    let documented = module.document().operations();
    assert_eq!(documented.len(), 1 + 2, "and the two probes: {documented:?}");
}

#[tokio::test]
async fn a_denied_call_never_reaches_the_database_and_an_allowed_one_fails_closed() {
    let module = start_without_database().await;
    module.member(Uuid::now_v7(), &[], &[]);
    for operation in views() {
        gates::check_without_database(&module, &operation).await;
    }
    probes::check_without_database(&module).await;
}

#[tokio::test]
async fn probes_and_metrics() {
    probes::check(&start().await, "/documents", "/documents").await;
}
