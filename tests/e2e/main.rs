//! The whole platform, tested from outside: over real TLS, through the real login form, as separate processes that can
//! be killed. One file per journey; `harness/` starts and stops things and knows nothing of the journeys.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken premise fails the test that has it"
)]
#![expect(clippy::print_stdout, reason = "the journeys print figures for runs with --nocapture")]

mod apps;
#[expect(dead_code, reason = "the contract's own tests read more of its cases")]
#[path = "../../kit/contract/tests/rules/cases.rs"]
mod cases;
mod chain;
mod closing;
mod docs_statuses;
mod doctor;
mod durability;
mod enablement;
mod grants_once;
mod harness;
mod hazards;
mod helpdesk_statuses;
mod impostor;
mod matrix;
mod module_scene;
mod notification_statuses;
mod observed;
mod operators;
mod org_statuses;
mod outages;
mod provider;
mod provider_faults;
mod provider_outage;
mod reasons;
mod restart;
mod statuses;
mod timesheet_statuses;
mod tour;
mod trust;

/// Not a test itself: the journeys start this binary as the `platform` command, so that nothing needs to be built or
/// located twice. Without the variable it does nothing.
#[test]
fn platform_process() {
    harness::process::become_the_platform_if_asked();
}
