//! Checks of a client's HTTP/2 frames before the `h2` crate sees them: `frames` and `allowance` count frames without
//! work; `blocks`, `fields` and `text` find the parts of a request that the crate hides, and `mend` keeps malformed
//! fields from ending the connection.

pub(crate) mod allowance;
pub(crate) mod blocks;
pub(crate) mod fields;
pub(crate) mod frames;
pub(crate) mod mend;
pub(crate) mod text;

/// Marks a request whose `:path` had a fragment, which its target no longer shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HasFragment;
