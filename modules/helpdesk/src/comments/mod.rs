//! Comments on tickets: public ones for everyone who may view the ticket, internal ones for those who work on tickets.

pub(crate) mod http;
pub mod rules;
mod store;
