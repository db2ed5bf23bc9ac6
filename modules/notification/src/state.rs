//! What every handler holds.

use axum::extract::FromRef;
use service::module::Parts;
use service::{Core, Permits};

/// The shared parts of one process. Cheap to clone.
#[derive(Clone)]
pub struct App {
    /// As of every service.
    pub core: Core,
    /// Asks authz.
    pub permits: Permits,
}

impl From<Parts> for App {
    fn from(parts: Parts) -> Self {
        Self { core: parts.core, permits: parts.permits }
    }
}

impl FromRef<App> for Core {
    fn from_ref(app: &App) -> Self {
        app.core.clone()
    }
}
