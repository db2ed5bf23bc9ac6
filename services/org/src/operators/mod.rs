//! Operations without a public route, for the operator's tool: grant and revoke the company role `admin`, and activate
//! and deactivate companies and units. Like identity's lifecycle, these internal routes take no user's bearer; the
//! audit row names the operator's account.

pub(crate) mod http;
mod rules;
mod store;
