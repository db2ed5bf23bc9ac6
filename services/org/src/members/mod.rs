//! Members of companies and their links to subjects of the identity provider.

mod email;
pub(crate) mod http;
pub(crate) mod link;
pub(crate) mod rules;
pub(crate) mod store;
