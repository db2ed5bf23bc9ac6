//! API tests of the helpdesk module: each starts it on a fresh database, with authz and org scripted.

#![expect(clippy::expect_used, reason = "a broken premise fails the test that has it")]

mod contract_files;
mod gates;
mod tickets;

testkit::module_api!(helpdesk);
