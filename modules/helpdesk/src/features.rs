//! The decision that each operation asks for: a feature of `authz.fragment.json` and its relation on the company's
//! module. Tiers are the relations admin, editor and member of it.

use service::Feature;

/// Read one's own tickets; only for members, because it needs to know whose they are.
pub const TICKETS_READ: Feature =
    Feature { key: "helpdesk.tickets.read", relation: "member", operator: false };
/// Read every ticket of the company.
pub const TICKETS_READ_ALL: Feature =
    Feature { key: "helpdesk.tickets.read_all", relation: "editor", operator: true };
/// Whether the caller administers the module.
pub const TIER_ADMIN: Feature = Feature { key: "helpdesk.tier.read", relation: "admin", operator: true };
/// Whether the caller works on tickets.
pub const TIER_EDITOR: Feature = Feature { key: "helpdesk.tier.read", relation: "editor", operator: true };
