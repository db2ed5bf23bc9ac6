//! The summary of what a subject may do, for user interfaces. It grants nothing: every operation is decided again when
//! it is requested. Rows are read in one statement (`store.rs`), relations by the engine, some companies at a time
//! (`holdings.rs`); `rules.rs` derives the rest.

mod holdings;
pub mod http;
mod rules;
mod store;
