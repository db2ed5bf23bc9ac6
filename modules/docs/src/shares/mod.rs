//! Shares: a role in one document or folder for a member, the holder of a position, or the members of a group.

pub(crate) mod http;
pub(crate) mod new;
pub mod relinked;
pub(crate) mod removals;
pub mod row;
pub mod rules;
pub(crate) mod store;
