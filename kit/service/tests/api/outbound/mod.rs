//! Calls to user-given addresses, on a simulated network.

mod calls;
mod network;
mod targets;
