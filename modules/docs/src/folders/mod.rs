//! Folders: a share of a folder covers everything in it, through relations that follow `parent`.

pub(crate) mod admission;
pub(crate) mod http;
pub mod row;
pub mod rules;
pub(crate) mod shares;
pub(crate) mod store;
