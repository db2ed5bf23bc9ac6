//! Weeks handed in for approval: each time a week is submitted a version is added, and what it held is kept with it.

pub(crate) mod batch;
pub(crate) mod counts;
pub(crate) mod decide;
pub(crate) mod http;
mod list;
pub mod rules;
pub(crate) mod store;
