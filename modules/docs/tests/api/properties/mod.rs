//! Properties 1, 2, 3 and 11 of the design's page: random histories with injected failures of authz, compared with a
//! reference model of who may do what.

mod crashes;
mod histories;
mod model;

pub(crate) use crashes::{sweep, sweep_after};
