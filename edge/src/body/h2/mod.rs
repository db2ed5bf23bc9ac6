//! A request's body on its HTTP/2 stream, and what its client is told meanwhile; `unwanted` is a body that goes on after its
//! answer.

pub(crate) mod receiving;
pub(crate) mod reply;
pub(crate) mod unwanted;
