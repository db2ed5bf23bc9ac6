//! Messages, who sees and has read them, and the jobs that deliver them.

pub(crate) mod http;
mod list;
pub(crate) mod publish;
pub(crate) mod read;
pub mod rules;
pub(crate) mod store;
