//! The companies of one subject.

pub mod http;
mod store;
