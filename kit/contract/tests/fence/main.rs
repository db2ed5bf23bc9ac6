//! The migrations fence from outside: a corpus of accepted and refused files, the shipped migrations, and arbitrary
//! text.

#![expect(clippy::expect_used, reason = "a corpus that cannot be read fails the test that reads it")]

mod corpus;
mod shipped;
mod total;
