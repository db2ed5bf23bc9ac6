//! Submissions: weeks submitted for approval. Each time a week is submitted, a version is added that keeps the week's
//! entries.

pub(crate) mod batch;
pub(crate) mod counts;
pub(crate) mod decide;
pub(crate) mod http;
mod list;
pub mod rules;
pub(crate) mod store;
