//! API tests of the notification module: each starts it on a fresh database, with authz and org scripted.

#![expect(clippy::expect_used, reason = "a broken premise fails the test that has it")]

mod channels;
mod contract_files;
mod delivery;
mod gates;

testkit::module_api!(notification);
