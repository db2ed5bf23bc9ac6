//! `GET /internal/platform/snapshot`: the catalog as edges follow it, a line of JSON a change.

mod follower;
pub(crate) mod http;

pub(crate) use follower::Follower;
