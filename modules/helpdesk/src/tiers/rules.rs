//! The tiers. Each includes those below it.

use serde::Serialize;

contract::words! {
    /// What the caller may do in this company's module.
    pub enum Tier {
        /// Administers the module.
        Admin = "admin",
        /// Works on tickets: an agent.
        Editor = "editor",
        /// Opens tickets.
        Member = "member",
    }
}

/// A tier as clients see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// The highest tier that the caller holds.
    pub tier: Tier,
}
