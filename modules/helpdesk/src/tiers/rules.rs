//! The tiers, of which each holds those below it.

use serde::Serialize;

contract::words! {
    /// What the caller may do in the module, in this company.
    pub enum Tier {
        /// Administers it.
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
    /// The highest that is held.
    pub tier: Tier,
}
