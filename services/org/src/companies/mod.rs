//! The companies of one subject.

pub(crate) mod http;
mod store;
