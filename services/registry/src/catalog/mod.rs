//! The catalog as it is read: modules and apps, their state, and what a module still misses.

mod current;
pub(crate) mod http;
mod published;
pub(crate) mod rules;
pub(crate) mod store;

pub(crate) use current::Current;
pub(crate) use published::Published;
