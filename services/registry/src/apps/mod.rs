//! Registering and updating apps: a manifest that is checked whole before anything is written.

mod file;
pub(crate) mod http;
pub mod rules;
mod store;
mod verdict;

pub use file::check_app;
