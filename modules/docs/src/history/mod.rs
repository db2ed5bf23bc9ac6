//! The history of a document: its audit rows.

pub(crate) mod http;
