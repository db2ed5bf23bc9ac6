//! Folders: what is shared of a folder is shared of everything in it, by relations that follow `parent`.

pub(crate) mod admission;
pub(crate) mod http;
pub mod row;
pub mod rules;
pub(crate) mod shares;
pub(crate) mod store;
