//! What stands before every operation, and the probes.

use testkit::Operation;
use testkit::module::{gates, probes};
use uuid::Uuid;

use crate::{start, start_without_database};

fn mine() -> Operation {
    Operation {
        method: "GET",
        tail: "/tickets".to_owned(),
        body: None,
        feature: "helpdesk.tickets.read",
        relation: "member",
        operator: false,
    }
}

fn all() -> Operation {
    let (tail, feature) = ("/tickets?view=all".to_owned(), "helpdesk.tickets.read_all");
    Operation { tail, feature, relation: "editor", operator: true, ..mine() }
}

#[tokio::test]
async fn no_operation_does_anything_without_bearer_company_and_decision() {
    let module = start().await;
    for operation in [mine(), all()] {
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
    for operation in [mine(), all()] {
        gates::check_without_database(&module, &operation).await;
    }
    probes::check_without_database(&module).await;
}

#[tokio::test]
async fn probes_and_metrics() {
    let module = start().await;
    module.member(Uuid::now_v7(), &[], &[]);
    probes::check(&module, "/tickets", "/tickets").await;
}
