//! Weeks handed in for approval: each time a week is submitted a version is added, and what it held is kept with it.

pub(crate) mod decide;
pub(crate) mod http;
pub mod rules;
mod store;
