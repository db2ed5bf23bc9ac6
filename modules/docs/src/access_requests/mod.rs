//! Requests for access: a member whom a document is closed to asks those who share it.

pub(crate) mod http;
mod met;
pub mod rules;
pub(crate) mod store;
