//! The migrations fence from outside: a corpus of files that pass and files that are refused, what ships, and any text.

#![expect(clippy::expect_used, reason = "a corpus that cannot be read fails the test that reads it")]

mod corpus;
mod shipped;
mod total;
