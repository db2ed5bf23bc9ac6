//! Clients of the internal routes that more than one service calls. Each has its own budget, under the 4.5 s that a
//! whole request may take.

pub mod authz;
pub mod directory;
pub mod grants;
pub mod notification;
pub mod org;
