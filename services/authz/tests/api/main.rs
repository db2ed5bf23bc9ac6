//! Tests of authz's API over HTTP, with authz as the role `platform_authz` on a real PostgreSQL; the superuser writes
//! the rows of identity, org and registry. One file per subject.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a broken premise fails the test that has it"
)]

mod app;
mod authzen;
mod batch;
mod bindings;
mod budget;
mod bulk;
mod by_hand;
mod can;
mod cases;
mod denials;
mod depth;
mod explain;
mod feed;
mod fuzz;
mod grants;
mod heavy;
mod journal;
mod limits;
mod memory;
mod models;
mod objects;
mod operate;
mod owner;
mod privileges;
mod probes;
mod reasons;
mod restore;
mod revoke;
mod roles;
mod shape;
mod start;
mod summary;
mod superadmin;
mod two_store;
mod unavailable;
