//! The decision that each operation asks for: a feature of `authz.fragment.json` and its relation on the company's
//! module.

use service::Feature;

/// Read channels.
pub const CHANNELS_READ: Feature =
    Feature { key: "notification.channels.read", relation: "member", operator: true };
/// Manage channels; whoever may is also shown where they lead.
pub const CHANNELS_MANAGE: Feature =
    Feature { key: "notification.channels.manage", relation: "admin", operator: true };
