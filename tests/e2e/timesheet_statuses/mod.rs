//! The timesheet's responses, operation × status, as its OpenAPI file lists them: the tests produce exactly the
//! statuses that the file names, through the gateway over TLS and against PostgreSQL, and each response fits its
//! schema. Every refusal that the file shows as an example occurs too. The table is printed.
//!
//! `records.rs` and `decisions.rs` cover each operation's own rules; the rest is `module_scene`.

mod decisions;
mod isolation;
mod records;
mod scene;

use scene::Scene;

use crate::module_scene::faults;

/// The tables that the limited operations read in their turn, and not before.
const READ_IN_TURN: &str = "timesheet.entries, timesheet.submissions, timesheet.member_approvers";

#[tokio::test]
async fn every_documented_status_of_every_operation_is_produced_and_no_other() {
    let mut scene = Scene::start("timesheet-statuses").await;
    faults::strangers(&mut scene).await;
    faults::malformed(&mut scene).await;
    records::settings_and_projects(&mut scene).await;
    records::approvers(&mut scene).await;
    records::entries(&mut scene).await;
    records::whole_weeks(&mut scene).await;
    decisions::submissions(&mut scene).await;
    decisions::moves(&mut scene).await;
    decisions::keys(&mut scene).await;
    decisions::rules_at_submission(&mut scene).await;
    records::reads(&mut scene).await;
    faults::too_many_at_once(&mut scene, |_| READ_IN_TURN).await;
    faults::switched_off(&mut scene).await;
    faults::without_its_tables(&mut scene).await;
    faults::without_authz(&mut scene).await;
    faults::without_the_module(&mut scene).await;
    scene.print_and_compare();
}
