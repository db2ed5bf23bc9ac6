//! Plain-text documents with versions. Each document has one owner, any number of shares, and a general access for the
//! company.

pub(crate) mod answer;
mod counts;
pub(crate) mod http;
mod list;
pub mod new;
mod reached;
pub(crate) mod rights;
pub mod rules;
pub(crate) mod store;
