//! What registry tells the edges of the catalog: one line of JSON a change, each a whole snapshot
//! (`GET /internal/platform/snapshot?after=<revision>`). authz reads the same facts from registry's view.

use serde::{Deserialize, Serialize};

use crate::Subject;

/// Whether requests to a module may pass, in the order of the gate's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ModuleState {
    /// Installed, enabled, and so is everything it needs.
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
    /// What the gate says.
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
    /// `sub` of its backend's tokens: the client's service account. Absent until it is known; until then nobody is the
    /// app's backend.
    #[serde(default)]
    pub subject: Option<Subject>,
    /// Apps are guards' business even when disabled.
    pub enabled: bool,
}

/// The catalog at one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogSnapshot {
    /// Rises with every change.
    pub revision: i64,
    /// Names the row that holds the revision and the start of its database server. Another edition at a revision that is
    /// no higher comes of another state of the database: a restored one, or one whose server was started anew.
    #[serde(default)]
    pub edition: String,
    /// Every built-in module.
    pub modules: Vec<ModuleEntry>,
    /// Every registered app.
    pub apps: Vec<AppEntry>,
}

/// Header of registry's answer to enable, disable and register: the revision that holds the change. The edge waits
/// for it before it answers, so that a client never sees its own change late.
pub const REVISION_HEADER: &str = "x-catalog-revision";
