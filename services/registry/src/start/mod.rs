//! The start-up pass: brings the tables to what this program ships and to what the install list says, and ensures the
//! default grants. One transaction, tried again until the database lets it; `/ready` waits for it. Where there are more
//! companies than one transaction writes grants for, what is to be installed begins to be enabled, and the grants of what is
//! enabled already are ensured portion by portion after the service is ready (`sweep`).

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
/// Subject of the audit rows of grants that were missing.
const CATALOG_GRANTS: &str = "catalog:default_grants";
/// Between two tries while the database does not answer.
const RETRY: Duration = Duration::from_millis(500);

/// What a pass works with.
pub(crate) struct Pass {
    pub(crate) app: App,
    pub(crate) shipped: Vec<ShippedModule>,
    pub(crate) install: Vec<String>,
}

/// Why a pass did not end well.
enum Failed {
    /// May go better the next time.
    Now(ApiError),
    /// Will never: what is shipped does not fit what is registered.
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

/// Runs passes until one has succeeded; the service is not ready before. One that never can stops the service and says why
/// to `unfit`.
pub(crate) fn begin(app: &App, pass: Pass, hold: ReadinessHold, unfit: oneshot::Sender<String>) {
    app.core.workers.every("catalog_pass", Pace::every(RETRY), Passes { pass, end: Some((hold, unfit)) });
}

struct Passes {
    pass: Pass,
    /// Taken by the last pass.
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
                // The service waits for it unless it was dropped.
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

/// Whether one transaction writes the default grants of all companies.
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

    /// New modules get a row, changed ones their new manifest and version.
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

    /// Object types and feature keys: first everything is given up that no module has any more, so that a type may move
    /// from one module to another.
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
                    "the built-in module {key}: \"{what}\" belongs to {owner} already"
                )));
            }
        }
        Ok(changed > 0)
    }

    /// What is listed and not installed becomes installed and enabled; what is installed keeps its flag.
    async fn install(&self, tx: &mut AuditedTx) -> Result<bool, Failed> {
        let installed = store::install(tx.conn(), &self.install).await?;
        for key in &installed {
            tx.record(&event("module.installed", key, json!({ "enabled": { "from": false, "to": true } })))
                .await?;
        }
        Ok(!installed.is_empty())
    }

    /// The same where there are many companies: it is installed and enabled once they have its default grants.
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
