//! Reads of the catalog: modules and apps, their state, and the missing dependencies of modules.

mod current;
pub(crate) mod http;
mod published;
pub(crate) mod rules;
pub(crate) mod store;

pub(crate) use current::Current;
pub(crate) use published::Published;
