//! Look-ups for modules: members, positions and groups of a company by id, and the positions and groups that a module
//! may offer for assignment. The routes are internal; the gateway forwards none of them.

pub(crate) mod http;
mod rules;
mod store;
