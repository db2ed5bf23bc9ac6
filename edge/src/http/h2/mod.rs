//! What the gateway looks at in a client's HTTP/2 frames before the crate `h2` does: `frames` and `allowance` count frames that
//! bring no work; `blocks`, `fields` and `text` find what the crate hides of a request, and `mend` keeps malformed fields from
//! ending the connection.

pub(crate) mod allowance;
pub(crate) mod blocks;
pub(crate) mod fields;
pub(crate) mod frames;
pub(crate) mod mend;
pub(crate) mod text;

/// Marks a request whose `:path` had a fragment, which is not in its target any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HasFragment;
