//! The chassis from outside: a small service with one route for each habit, on a real database, as the role of `org`.

#![expect(clippy::expect_used, reason = "a broken premise fails the test that has it")]

mod app;
mod audit;
mod contention;
mod fetch;
mod layers;
mod listener;
mod maven;
mod org_client;
mod probes;
mod requests;
