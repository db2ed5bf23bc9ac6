//! Code shared by the client side and the upstream side: header rules, framing, limits, fairness between tasks, dates,
//! the HTTP/1.1 codec, and the counting of HTTP/2 frames.

pub(crate) mod alarm;
pub(crate) mod credit;
pub(crate) mod dates;
pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod headers;
pub(crate) mod peer;
pub(crate) mod quantum;
pub(crate) mod share;
pub(crate) mod spelling;
pub(crate) mod trailers;
