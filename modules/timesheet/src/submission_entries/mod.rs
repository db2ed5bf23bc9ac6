//! What a submission held when it was made, for whoever decides it or may read the company's.

pub(crate) mod http;
pub mod rules;
mod store;
