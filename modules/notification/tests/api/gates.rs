//! What stands before every operation, and the probes.

use testkit::Operation;
use testkit::module::gates::{self, Sample};
use testkit::module::probes;

use crate::{start, start_without_database};

fn operations() -> Vec<Operation> {
    gates::operations(notification::operations().table(), &[Sample::of("listChannels", "/channels")])
}

#[tokio::test]
async fn no_operation_does_anything_without_bearer_company_and_decision() {
    let module = start().await;
    gates::check(&module, &operations()).await;
    assert!(module.org.requests().is_empty(), "the decision comes before the caller's place");
}

#[tokio::test]
async fn a_denied_call_never_reaches_the_database_and_an_allowed_one_fails_closed() {
    let module = start_without_database().await;
    gates::check_without_database(&module, &operations()).await;
    probes::check_without_database(&module).await;
}

#[tokio::test]
async fn probes_and_metrics() {
    let module = start().await;
    probes::check(&module, "/channels", "/channels").await;
}
