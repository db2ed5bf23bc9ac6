//! Events that modules post: messages that name their channel by its key and are published once.

pub(crate) mod http;
pub mod rules;
