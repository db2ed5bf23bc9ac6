//! Bodies of answers on their way to the client, whether an upstream or the gateway itself made them.

pub(crate) mod body;
pub(crate) mod pieces;
