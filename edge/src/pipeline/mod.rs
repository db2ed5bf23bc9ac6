//! The steps of one request, one file each, in this order: `handle` (all steps on one screen) calls `guard`, `route`,
//! `authenticate`, `provision`, `authorize`, `outbound`; every rejection is a `refusal`. `path`, `cors`, `forwarded`
//! and `elements` hold the pure rules behind them.

pub(crate) mod authenticate;
pub(crate) mod authorize;
pub(crate) mod context;
pub(crate) mod cors;
pub(crate) mod elements;
pub(crate) mod forwarded;
pub(crate) mod guard;
pub(crate) mod handle;
pub(crate) mod inbound;
pub(crate) mod local;
pub(crate) mod outbound;
pub(crate) mod path;
pub(crate) mod provision;
pub(crate) mod questions;
pub(crate) mod rate_limit;
pub(crate) mod refusal;
pub(crate) mod route;
pub(crate) mod routes;
pub(crate) mod upgrade;
pub(crate) mod worker;
