//! Rules for enabling and disabling modules and apps. Pure.

use contract::envelope::code;
use serde::Serialize;
use serde_json::json;
use service::ApiError;

/// The current state of a module or app.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "columns of a row")]
pub(super) struct Standing {
    pub(super) key: String,
    /// `module` or `app`.
    pub(super) kind: String,
    pub(super) mandatory: bool,
    pub(super) installed: bool,
    pub(super) enabled: bool,
    /// Whether its default grants are being written.
    pub(super) enabling: bool,
}

/// A module or app that is being enabled, and the caller who requested it.
#[derive(Clone, Debug)]
pub(super) struct Enabling {
    pub(super) key: String,
    pub(super) requested_by: String,
    pub(super) correlation_id: Option<String>,
}

/// The number of companies whose default grants are written, and of those that were active at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Progress {
    pub(super) done: i64,
    pub(super) total: i64,
}

/// The change that a request requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// No change; the module already has the requested state.
    Unchanged,
    /// The state must be changed.
    Change,
}

/// Checks an enabling. The module must be installed or being enabled; its dependencies need not be.
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

/// Checks a disabling. A mandatory module cannot be disabled; an enabling can be cancelled.
pub(super) fn disable(standing: &Standing) -> Result<Step, ApiError> {
    if standing.mandatory {
        return Err(ApiError::Unprocessable {
            message: "a mandatory module cannot be disabled".into(),
            details: json!({ "reason": "MODULE_MANDATORY", "moduleKey": standing.key }),
        });
    }
    Ok(if standing.enabled || standing.enabling { Step::Change } else { Step::Unchanged })
}
