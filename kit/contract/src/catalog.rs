//! The catalog that registry publishes to the gateways: one line of JSON per change, each a complete snapshot
//! (`GET /internal/platform/snapshot?after=<revision>`). authz reads the same facts from registry's view.

use serde::{Deserialize, Serialize};

use crate::Subject;

/// Whether requests to a module may pass, in the gate's order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ModuleState {
    /// Installed and enabled, as are all of its dependencies.
    Ok,
    /// 403.
    ModuleNotInstalled,
    /// 403.
    ModuleDisabled,
    /// 403.
    ModuleDependencyMissing,
}

/// One module of the built-in list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleEntry {
    /// Module key.
    pub key: String,
    /// The gate's verdict.
    pub state: ModuleState,
    /// `service.port` of its manifest.
    pub port: u16,
    /// Required modules that are not installed, not enabled or out of range.
    pub missing: Vec<String>,
}

/// One registered app.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppEntry {
    /// App key.
    pub key: String,
    /// `azp` of its backend's tokens.
    pub client_id: String,
    /// `sub` of its backend's tokens: the client's service account. Absent until it is known; until then no caller
    /// counts as the app's backend.
    #[serde(default)]
    pub subject: Option<Subject>,
    /// Whether the app is enabled. Guards apply to disabled apps too.
    pub enabled: bool,
}

/// The catalog at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogSnapshot {
    /// Increases with every change.
    pub revision: i64,
    /// Identifies the row that holds the revision, and the start of its database server. Another edition at the same or
    /// a lower revision means another state of the database: it was restored, or its server was restarted.
    #[serde(default)]
    pub edition: String,
    /// Every built-in module.
    pub modules: Vec<ModuleEntry>,
    /// Every registered app.
    pub apps: Vec<AppEntry>,
}

/// Header of registry's response to enable, disable and register: the revision that holds the change. The gateway waits
/// for that revision before it responds, so that a client always sees its own change.
pub const REVISION_HEADER: &str = "x-catalog-revision";
