//! The catalog as it is read: modules and apps, their state, and what a module still misses.

pub(crate) mod http;
pub(crate) mod rules;
pub(crate) mod store;
