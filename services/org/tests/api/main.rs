//! API tests of org. Each starts the service with its own database role on a fresh database; identity and authz are
//! scripted. Every response is checked against `openapi.json`.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that finds an unexpected result has failed"
)]
#![expect(clippy::print_stdout, reason = "figures, shown by --nocapture")]

mod assignments;
mod company_creation;
mod contention;
mod derived_tuples;
mod directory;
mod forgetting;
mod groups;
mod guards;
mod histories;
mod large_start;
mod links;
mod lookup;
mod many_members;
mod members;
mod operators;
mod positions;
mod readers;
mod superadmins;
mod support;
mod units;
