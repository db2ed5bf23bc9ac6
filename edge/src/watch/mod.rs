//! Background tasks that publish immutable snapshots; the way of a request only reads them. The signing keys' watcher is
//! `bearer`'s own.

pub(crate) mod catalog;
pub(crate) mod certificates;
mod expiry;
mod names;
