//! API tests of the docs module: each test starts the module on a fresh database, with scripted authz and org.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a broken premise fails the test that has it"
)]

mod access_requests;
mod comments;
mod contract_files;
mod deadlocks;
mod deletions;
mod documents;
mod folders;
mod gates;
mod hazards;
mod history;
mod isolation;
mod lists;
mod moves;
mod narrowed;
mod properties;
mod relinked;
mod removals;
mod rights;
mod search;
mod shares;
mod transfers;
mod versions;
mod world;

testkit::module_api!(docs);
