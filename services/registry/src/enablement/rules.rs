//! When a module or app may be enabled or disabled: pure.

use contract::envelope::code;
use serde_json::json;
use service::ApiError;

/// A module or app as it stands.
#[derive(Clone, Debug)]
pub(super) struct Standing {
    pub(super) key: String,
    /// `module` or `app`.
    pub(super) kind: String,
    pub(super) mandatory: bool,
    pub(super) installed: bool,
    pub(super) enabled: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It is so already.
    Unchanged,
    /// Make it so.
    Change,
}

/// Enabling wants it installed, and nothing of its dependencies.
pub(super) fn enable(standing: &Standing) -> Result<Step, ApiError> {
    if !standing.installed {
        return Err(ApiError::Conflict {
            code: code::MODULE_NOT_INSTALLED,
            message: "the module is not installed".into(),
            details: json!({ "moduleKey": standing.key }),
        });
    }
    Ok(if standing.enabled { Step::Unchanged } else { Step::Change })
}

/// A mandatory module cannot be disabled.
pub(super) fn disable(standing: &Standing) -> Result<Step, ApiError> {
    if standing.mandatory {
        return Err(ApiError::Unprocessable {
            message: "a mandatory module cannot be disabled".into(),
            details: json!({ "reason": "MODULE_MANDATORY", "moduleKey": standing.key }),
        });
    }
    Ok(if standing.enabled { Step::Change } else { Step::Unchanged })
}
