//! The change log as the memory engine follows it: a question waits for its round (`rounds.rs`), whose statement
//! (`read_index.rs`) brings the graph to the moment of the facts that it reads (`wanted.rs`), from where it was (`cursor.rs`).

pub(crate) mod cursor;
pub(crate) mod meter;
pub(crate) mod read_index;
pub(crate) mod rounds;
pub(crate) mod wanted;

#[cfg(test)]
mod handover;
