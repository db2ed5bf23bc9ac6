//! Tasks that publish immutable snapshots, which requests only read; the drain; and the workers' heartbeats. `bearer`
//! watches the signing keys itself.

pub(crate) mod catalog;
pub(crate) mod drain;
pub(crate) mod heartbeats;
