//! Plain texts with versions. Every document has one owner, any number of shares, and a general access for the company.

pub(crate) mod http;
pub mod rules;
mod store;
