//! Events that modules post: messages whose channel is named by its key, and which are published once.

pub(crate) mod http;
pub mod rules;
