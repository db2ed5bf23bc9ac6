//! Tests of the harness itself: what other crates' tests rely on.

mod cluster;
mod smtp;
mod upstream;
