//! API tests of registry over HTTP, with the database role `platform_registry`: one file per resource, one
//! [`app::TestApp`] per test.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that does not find what it needs has failed, in helpers too"
)]

mod app;
mod apps;
mod backends;
mod bundles;
#[expect(dead_code, reason = "the contract's own tests read more of its cases")]
#[path = "../../../../kit/contract/tests/rules/cases.rs"]
mod cases;
mod catalog;
mod default_grants;
mod door;
mod enablement;
mod enabling;
mod freshness;
mod rules;
mod snapshot;
mod start;
mod superadmins;
