//! The gateway's observability: metric families (`meter`), counters of limits (`tally`), the ids of a request (`ids`)
//! and its line in the access log (`access`).

pub(crate) mod access;
pub(crate) mod ids;
pub(crate) mod meter;
pub(crate) mod tally;
