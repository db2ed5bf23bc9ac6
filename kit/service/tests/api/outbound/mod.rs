//! Calls to addresses that users give, on a network that the test lays.

mod calls;
mod network;
mod targets;
