//! A request's body on its HTTP/2 stream, and the informational answers to its client; `unwanted` reads a body that
//! continues after its answer.

pub(crate) mod receiving;
pub(crate) mod reply;
pub(crate) mod unwanted;
