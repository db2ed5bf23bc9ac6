//! The entries that a submission held when it was created, for those who decide it or may read the company's
//! submissions.

pub(crate) mod http;
pub mod rules;
mod store;
