//! Bodies of answers to the client, made by an upstream or by the gateway itself.

pub(crate) mod body;
pub(crate) mod pieces;
