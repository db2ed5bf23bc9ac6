//! The summary: what a subject may do, for screens. It grants nothing: every operation is decided again when it is asked
//! for. Rows are read in one statement (`store.rs`), relations by the engine, some companies at a time (`holdings.rs`); what
//! follows from both is in `rules.rs`.

mod holdings;
pub mod http;
mod rules;
mod store;
