//! A module as data: the files its author wrote, compiled in. Only the `platform` crate knows the list of modules;
//! registry receives them as values.

use sqlx::migrate::Migrator;

/// The contract files of one module.
#[derive(Clone, Copy, Debug)]
pub struct Bundle {
    /// Module key.
    pub key: &'static str,
    /// `module.manifest.json`.
    pub manifest: &'static str,
    /// `authz.fragment.json`.
    pub fragment: &'static str,
    /// `openapi.json`.
    pub openapi: &'static str,
    /// `LICENSE`.
    pub license: &'static str,
    /// `migrations/`.
    pub migrations: &'static Migrator,
}
