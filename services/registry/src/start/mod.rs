//! The start-up pass: updates the tables to the shipped modules and the install list, and ensures the default grants,
//! in one transaction. The pass is retried until it succeeds; the service is not ready before. If there are too many
//! companies for one transaction, the pass begins to enable the modules to be installed, and the grants of modules that
//! are already enabled are ensured in portions after the service is ready (`sweep`).

mod store;
mod sweep;

use std::time::Duration;

use serde_json::{Value, json};
use service::readiness::ReadinessHold;
use service::workers::{Next, Pace, Step};
use service::{ApiError, AuditEvent, AuditedTx};
use tokio::sync::oneshot;
use uuid::Uuid;

use crate::App;
use crate::bundles::ShippedModule;
use crate::catalog::store::{bump, lock};
use crate::default_grants::{self, Portion};
use crate::enablement;
use store::{Existing, Taken};
use sweep::Sweep;

/// Actor of the audit rows.
const ACTOR: &str = "system:registry";
/// Subject of the audit rows of missing grants that were written.
const CATALOG_GRANTS: &str = "catalog:default_grants";
/// Delay before a retry while the database does not answer.
const RETRY: Duration = Duration::from_millis(500);

/// The input of a pass.
pub(crate) struct Pass {
    pub(crate) app: App,
    pub(crate) shipped: Vec<ShippedModule>,
    pub(crate) install: Vec<String>,
}

/// The reason why a pass failed.
enum Failed {
    /// A temporary failure.
    Now(ApiError),
    /// A permanent failure: the shipped modules conflict with what is registered.
    ForGood(String),
}

impl From<ApiError> for Failed {
    fn from(error: ApiError) -> Self {
        Self::Now(error)
    }
}

impl From<sqlx::Error> for Failed {
    fn from(error: sqlx::Error) -> Self {
        Self::Now(error.into())
    }
}

/// Runs passes until one succeeds; the service is not ready before. A permanent failure stops the service and sends the
/// reason to `unfit`.
pub(crate) fn begin(app: &App, pass: Pass, hold: ReadinessHold, unfit: oneshot::Sender<String>) {
    app.core.workers.every("catalog_pass", Pace::every(RETRY), Passes { pass, end: Some((hold, unfit)) });
}

struct Passes {
    pass: Pass,
    /// Taken when the last pass ends.
    end: Option<(ReadinessHold, oneshot::Sender<String>)>,
}

impl Step for Passes {
    type Error = ApiError;

    async fn step(&mut self) -> Result<Next, ApiError> {
        let outcome = self.pass.once().await;
        if let Err(Failed::Now(error)) = outcome {
            return Err(error);
        }
        match (outcome, self.end.take()) {
            (Err(Failed::ForGood(why)), Some((_, unfit))) => {
                // `serve` receives the reason unless it was dropped.
                unfit.send(why).unwrap_or_default();
                self.pass.app.stop.cancel();
            }
            (Ok(Companies::Many), Some((hold, _))) => {
                hold.release();
                sweep::start(Sweep::of(&self.pass.app));
            }
            (_, Some((hold, _))) => hold.release(),
            (_, None) => {}
        }
        Ok(Next::Done)
    }
}

/// Whether one transaction can write the default grants of all companies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Companies {
    Few,
    Many,
}

impl Pass {
    async fn once(&self) -> Result<Companies, Failed> {
        let mut tx = self.app.core.begin_as(ACTOR, None).await?;
        store::take_time(tx.conn()).await?;
        default_grants::store::lock(tx.conn()).await?;
        lock(tx.conn()).await?;
        let mut changed = self.write_modules(&mut tx).await?;
        changed |= self.write_claims(&mut tx).await?;
        let portion = Portion::after(tx.conn(), Uuid::nil()).await?;
        let (companies, granted) = if portion.is_last {
            changed |= self.install(&mut tx).await?;
            (Companies::Few, ensure_default_grants(&mut tx, &portion).await?)
        } else {
            changed |= self.begin_to_install(&mut tx).await?;
            (Companies::Many, false)
        };
        if changed {
            bump(tx.conn()).await?;
        }
        if !changed && !granted {
            tx.unchanged().await?;
            return Ok(companies);
        }
        tx.commit_recorded().await?;
        self.app.follower.look();
        self.app.enabling.look();
        Ok(companies)
    }

    /// Inserts new modules and updates changed ones.
    async fn write_modules(&self, tx: &mut AuditedTx) -> Result<bool, Failed> {
        let mut changed = false;
        for module in &self.shipped {
            let key = &module.contract.manifest.key;
            let existing = store::find(tx.conn(), key).await?;
            let action = match &existing {
                Some(existing) if existing.kind == "app" => {
                    return Err(Failed::ForGood(format!(
                        "the built-in module {key}: an app is registered under this key"
                    )));
                }
                Some(existing) if existing.content_hash == module.content_hash => continue,
                Some(_) => "module.updated",
                None => "module.registered",
            };
            store::write(tx.conn(), module).await?;
            store::write_version(tx.conn(), module, ACTOR).await?;
            tx.record(&event(action, key, version_change(existing.as_ref(), module))).await?;
            changed = true;
        }
        Ok(changed)
    }

    /// Updates the claims of object types and feature keys. All modules first give up claims that they no longer
    /// declare, so that a type can move from one module to another.
    async fn write_claims(&self, tx: &mut AuditedTx) -> Result<bool, Failed> {
        let mut changed = 0;
        for module in &self.shipped {
            changed += store::give_up_claims(tx.conn(), module).await?;
        }
        for module in &self.shipped {
            changed += store::take_claims(tx.conn(), module).await?;
            if let Some(Taken { what, owner }) = store::foreign_claim(tx.conn(), module).await? {
                let key = &module.contract.manifest.key;
                return Err(Failed::ForGood(format!(
                    "the built-in module {key}: \"{what}\" already belongs to {owner}"
                )));
            }
        }
        Ok(changed > 0)
    }

    /// Installs and enables the listed modules that are not installed; installed modules keep their flag.
    async fn install(&self, tx: &mut AuditedTx) -> Result<bool, Failed> {
        let installed = store::install(tx.conn(), &self.install).await?;
        for key in &installed {
            tx.record(&event("module.installed", key, json!({ "enabled": { "from": false, "to": true } })))
                .await?;
        }
        Ok(!installed.is_empty())
    }

    /// Begins to install the listed modules when there are many companies: each is installed and enabled once all
    /// companies have its default grants.
    async fn begin_to_install(&self, tx: &mut AuditedTx) -> Result<bool, Failed> {
        let keys = store::not_installed(tx.conn(), &self.install).await?;
        for key in &keys {
            let total = default_grants::store::active_companies(tx.conn()).await?;
            enablement::store::begin_enabling(tx.conn(), key, ACTOR, None, total).await?;
            tx.record(&event("module.enabling", key, json!({ "companies": total }))).await?;
        }
        Ok(!keys.is_empty())
    }
}

async fn ensure_default_grants(tx: &mut AuditedTx, portion: &Portion) -> Result<bool, Failed> {
    let keys = store::enabled_keys(tx.conn()).await?;
    let written = portion.ensure(tx.conn(), &keys).await?;
    if written.is_nothing() {
        return Ok(false);
    }
    written.record(tx, CATALOG_GRANTS.to_owned()).await?;
    Ok(true)
}

fn version_change(existing: Option<&Existing>, module: &ShippedModule) -> Value {
    let from = existing.map(|existing| existing.version.as_str());
    json!({ "version": { "from": from, "to": module.contract.manifest.version.to_string() } })
}

fn event(action: &'static str, key: &str, payload: Value) -> AuditEvent {
    AuditEvent { company: None, action, subject: format!("module:{key}"), payload }
}
