//! The positions and groups that a ticket can be assigned to.

pub(crate) mod http;
