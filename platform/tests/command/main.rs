//! Tests of the program as operators and scripts see it: exit codes, messages, and what a failed start leaves behind.

#![expect(clippy::expect_used, reason = "a test that cannot be set up has failed, and the text says why")]

mod authors;
mod check;
mod config;
mod demo;
mod first_hour;
mod fixture;
mod manual;
mod migrate;
mod new;
mod up;
