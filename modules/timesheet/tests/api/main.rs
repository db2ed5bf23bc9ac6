//! API tests of the timesheet module: each test starts the module on a fresh database, with scripted authz and org.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken premise fails the test that has it"
)]

mod batch;
mod contract_files;
mod decisions;
mod entries;
mod gates;
mod hazards;
mod member_approvers;
mod overview;
mod projects;
mod properties;
mod reports;
mod settings;
mod submission_entries;
mod submissions;
mod support;
mod whole_week;
mod world;

testkit::module_api!(timesheet);
