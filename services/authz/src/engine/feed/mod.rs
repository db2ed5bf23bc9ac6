//! The feed: how the memory engine follows the change log. A question waits for its round (`rounds.rs`), whose
//! statement (`read_index.rs`) reads the facts (`wanted.rs`) and brings the graph from its cursor (`cursor.rs`) to
//! their moment.

pub(crate) mod cursor;
pub(crate) mod meter;
pub(crate) mod read_index;
pub(crate) mod rounds;
pub(crate) mod wanted;

#[cfg(test)]
mod handover;
