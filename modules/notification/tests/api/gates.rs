//! What stands before every operation, and the probes.

use testkit::Operation;
use testkit::module::{gates, probes};

use crate::{start, start_without_database};

fn list() -> Operation {
    Operation {
        method: "GET",
        tail: "/channels".to_owned(),
        body: None,
        feature: "notification.channels.read",
        relation: "member",
        operator: true,
    }
}

#[tokio::test]
async fn no_operation_does_anything_without_bearer_company_and_decision() {
    gates::check(&start().await, &list()).await;
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
    gates::check_without_database(&module, &list()).await;
    probes::check_without_database(&module).await;
}

#[tokio::test]
async fn probes_and_metrics() {
    probes::check(&start().await, "/channels", "/channels").await;
}
