//! What other services and members may read about a company's members: the directory, a subject's membership, and the
//! caller's context for modules. [`guard`] checks readers of names again, after the gateway.

pub(crate) mod guard;
pub(crate) mod http;
mod rules;
mod search;
mod store;
