//! The decision that each operation asks for: a feature of `authz.fragment.json` and its relation on the company's
//! module.

use service::Feature;

/// List the documents that the caller owns or that are shared with the caller.
pub const DOCUMENTS_LIST: Feature =
    Feature { key: "docs.documents.list", relation: "member", operator: false };
/// List every document of the company, without its content.
pub const DOCUMENTS_LIST_ALL: Feature =
    Feature { key: "docs.documents.list_all", relation: "admin", operator: true };
