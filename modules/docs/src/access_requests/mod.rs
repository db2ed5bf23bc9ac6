//! Requests for access: a member whom a document is closed to asks those who share it.

pub(crate) mod http;
pub mod rules;
pub(crate) mod store;
