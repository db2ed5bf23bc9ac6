//! What a module asks about ids that it keeps: members, positions and groups of one company by id, and what of it a
//! module may offer for assignment. No bearer here: the routes are internal, and the edge forwards none of them.

pub(crate) mod http;
mod rules;
mod store;
