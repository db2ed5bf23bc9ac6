//! Users and service accounts, and the checking of passwords.

pub(crate) mod passwords;
pub(crate) mod rules;
pub(crate) mod store;
