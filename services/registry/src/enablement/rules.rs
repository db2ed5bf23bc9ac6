//! When a module or app may be enabled or disabled: pure.

use contract::envelope::code;
use serde::Serialize;
use serde_json::json;
use service::ApiError;

/// A module or app as it stands.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "columns of a row")]
pub(super) struct Standing {
    pub(super) key: String,
    /// `module` or `app`.
    pub(super) kind: String,
    pub(super) mandatory: bool,
    pub(super) installed: bool,
    pub(super) enabled: bool,
    /// Its default grants are being written.
    pub(super) enabling: bool,
}

/// Something that is being enabled, and who asked for it.
#[derive(Clone, Debug)]
pub(super) struct Enabling {
    pub(super) key: String,
    pub(super) requested_by: String,
    pub(super) correlation_id: Option<String>,
}

/// Companies whose default grants are written, of those that were active when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Progress {
    pub(super) done: i64,
    pub(super) total: i64,
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
    if !standing.installed && !standing.enabling {
        return Err(ApiError::Conflict {
            code: code::MODULE_NOT_INSTALLED,
            message: "the module is not installed".into(),
            details: json!({ "moduleKey": standing.key }),
        });
    }
    Ok(if standing.enabled { Step::Unchanged } else { Step::Change })
}

/// A mandatory module cannot be disabled. What is being enabled is called off.
pub(super) fn disable(standing: &Standing) -> Result<Step, ApiError> {
    if standing.mandatory {
        return Err(ApiError::Unprocessable {
            message: "a mandatory module cannot be disabled".into(),
            details: json!({ "reason": "MODULE_MANDATORY", "moduleKey": standing.key }),
        });
    }
    Ok(if standing.enabled || standing.enabling { Step::Change } else { Step::Unchanged })
}
