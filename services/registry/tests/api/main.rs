//! The API of registry, asked over HTTP as the role `platform_registry`: one file a resource, one [`app::TestApp`].

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that does not find what it needs has failed, in its helpers too"
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
