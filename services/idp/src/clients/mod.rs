//! Clients: who may ask for logins and tokens. They are made by the start's reconcile and read by everything else.

pub(crate) mod rules;
pub(crate) mod store;
