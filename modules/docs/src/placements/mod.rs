//! What lies in which folder. A move is a change of one `parent` tuple: granted where there was none, taken where there is
//! to be none, exchanged otherwise, the old one first. While it is unsettled the document or folder opens to those that
//! either folder is open to at most, and the lists go on to say where it was.

pub(crate) mod http;
pub mod row;
pub mod rules;
pub(crate) mod store;
