//! Placements: which folder contains what. A move changes one `parent` tuple: it is granted where there was none,
//! removed where there will be none, and exchanged otherwise, the old one being removed first. Until a move settles,
//! the child opens at most to those whom either folder is open to, and lists show it in the old one. A move out of a folder
//! that breaks off is finished by the next request about the child (`unfinished.rs`), never undone.

pub(crate) mod http;
pub mod row;
pub mod rules;
pub(crate) mod store;
pub(crate) mod unfinished;
