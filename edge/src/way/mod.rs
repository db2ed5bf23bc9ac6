//! One request's way, a file a step, in this order: `exchange` (the whole way on one screen) calls `guard`, `route`,
//! `bearer`, `provision`, `clearance`, `outbound`; every "no" is a `refusal`. `path`, `cors`, `forwarded` and `elements`
//! are the pure rules behind them.

pub(crate) mod account;
pub(crate) mod ask;
pub(crate) mod bearer;
pub(crate) mod clearance;
pub(crate) mod cors;
mod elements;
pub(crate) mod exchange;
pub(crate) mod forwarded;
pub(crate) mod guard;
pub(crate) mod inbound;
pub(crate) mod local;
pub(crate) mod named;
pub(crate) mod outbound;
pub(crate) mod path;
pub(crate) mod provision;
pub(crate) mod rate;
pub(crate) mod refusal;
pub(crate) mod route;
pub(crate) mod routes;
pub(crate) mod trace;
pub(crate) mod upgrade;

/// The header that names a request everywhere.
pub(crate) const CORRELATION: http::HeaderName = http::HeaderName::from_static(contract::correlation::HEADER);
