//! `GET /internal/platform/snapshot`: the stream of catalog snapshots that gateways follow, one line of JSON per
//! change.

mod follower;
pub(crate) mod http;

pub(crate) use follower::Follower;
