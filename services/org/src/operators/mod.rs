//! What an operator's tool does that has no public route: giving and taking the company role `admin`, and turning
//! companies and units off and on. No bearer: these routes are internal, as identity's lifecycle is, and the audit row
//! names the operator's account.

pub(crate) mod http;
mod rules;
mod store;
