//! testkit
pub mod cluster;
