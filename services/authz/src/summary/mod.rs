//! The summary of what a subject may do, for user interfaces. It grants nothing: every operation is decided again when
//! it is requested. The engine reads facts, relations and own tuples of some companies at a time (`holdings.rs`);
//! `rules.rs` derives the rest from what the enabled modules declare (`catalogs.rs`). Only the companies of a summary
//! that names none are read by a statement of their own (`store.rs`), because the statement of a round is short.

mod catalogs;
mod holdings;
pub mod http;
mod rules;
mod store;

pub use catalogs::Catalogs;
