//! Registration and update of apps. A manifest is checked completely before anything is written.

mod file;
pub(crate) mod http;
pub mod rules;
mod store;
mod verdict;

pub use file::check_app;
