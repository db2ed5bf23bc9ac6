//! The two tuples that make an enabled module usable in a company (module contract, "Default grants").

use crate::id::CompanyId;

/// `company_module:<company>/<module>#company@company:<company>`: the anchor, ensured on every pass.
pub const ANCHOR_RELATION: &str = "company";
/// `company_module:<company>/<module>#system@system:platform`: written once, so that an operator can delete it.
pub const SYSTEM_RELATION: &str = "system";
/// The one object of type `system`.
pub const SYSTEM_ID: &str = "platform";
/// Key of the PostgreSQL advisory lock that serialises company creation (shared) and enablement (exclusive).
pub const DEFAULT_GRANTS_LOCK: &str = "platform.default_grants";

/// The id of the object that stands for one module in one company.
#[must_use]
pub fn company_module_id(company: CompanyId, module_key: &str) -> String {
    format!("{company}/{module_key}")
}
