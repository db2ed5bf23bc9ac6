//! The harness itself: what tests of other crates rely on.

mod cluster;
mod smtp;
mod upstream;
