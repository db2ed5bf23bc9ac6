//! What time is recorded against. A project is never deleted, only made inactive.

pub(crate) mod http;
pub mod rules;
mod store;
