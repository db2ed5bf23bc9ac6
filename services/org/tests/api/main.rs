//! The API tests of org: the service as it runs, as its own database role, against a fresh database; identity is
//! scripted. Every answer is checked against `openapi.json`.
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that finds something else than it expects has failed"
)]
#![expect(clippy::print_stdout, reason = "figures, for whoever runs the tests with --nocapture")]

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
