//! What other services and members may see of a company's members: the directory, one subject's membership, and the
//! caller's context for modules. Who reads names here is asked again, whatever the edge has asked ([`guard`]).

pub(crate) mod guard;
pub(crate) mod http;
mod rules;
mod store;
