//! Users and service accounts, and the checking and changing of passwords.

pub(crate) mod change;
pub(crate) mod passwords;
pub(crate) mod policy;
pub(crate) mod queue;
pub(crate) mod rules;
pub(crate) mod store;
