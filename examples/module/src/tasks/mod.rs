//! Tasks: made, read, replaced and deleted. Who may do what with one of them stands in its tuples.

pub(crate) mod http;
pub mod rules;
mod store;
