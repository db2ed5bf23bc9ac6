//! What other services and members may see of a company's members: the directory, one subject's membership, and the
//! caller's context for modules. No bearer here: the edge guards what of it is public, the rest is internal.

pub(crate) mod http;
mod rules;
mod store;
