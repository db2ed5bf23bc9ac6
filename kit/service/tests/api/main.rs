//! The chassis from outside: a small service with one route per feature, on a real database, as the role of `org`.

#![expect(clippy::expect_used, reason = "a broken premise fails the test that has it")]

mod app;
mod audit;
mod bootstrap;
mod contention;
mod database_tls;
mod grants_client;
mod idempotency;
mod layers;
mod listener;
mod org_client;
mod outbound;
mod own_server;
mod permits;
mod probes;
mod queue;
mod queue_processes;
mod reads;
mod requests;
mod sealed;
mod transactions;
mod workers;
