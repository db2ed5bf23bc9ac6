//! Projects, which time is recorded for. A project is never deleted, only made inactive.

pub(crate) mod http;
pub mod rules;
mod store;
