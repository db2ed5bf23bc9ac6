//! Rotates the signing key while serving: by age, or at an administrator's request. The new key signs at once; the old
//! one stays published until the tokens it signed have expired. A mutex serialises rotations in this process, a
//! database lock those of several processes; each process loads the others' keys with its next [`step`].

use serde_json::json;
use service::{ApiError, AuditEvent, Core};
use time::{Duration, OffsetDateTime};
use tokio::sync::Mutex;

use crate::keys::rules::{KEPT, KeyRing, StoredKey, make_signing_key};
use crate::keys::store;
use crate::state::App;

/// Actor of the audit rows.
const ACTOR: &str = "system:rotation";

/// A request for a new key.
pub(crate) struct Wish<'a> {
    pub(crate) actor: &'a str,
    pub(crate) correlation: Option<&'a str>,
    /// Only if the active key is at least this old.
    pub(crate) age: Option<Duration>,
}

/// Serialises rotations and reloads in this process, so that none restores keys that another has replaced.
#[derive(Default)]
pub(crate) struct RotationLock(Mutex<()>);

/// Replaces a key that is too old, removes keys that nothing can refer to any more, and loads the stored ones.
///
/// # Errors
/// The database cannot answer, or a stored key does not parse.
pub async fn step(app: &App) -> Result<(), ApiError> {
    let age = Some(app.key_max_age);
    rotate(app, &Wish { actor: ACTOR, correlation: None, age }).await?;
    let _lock = app.rotation.0.lock().await;
    remove_unneeded(&app.core).await?;
    let mut conn = app.core.pool.acquire().await?;
    let stored = store::signing_keys(&mut conn).await?;
    take_up(&app.keys, &stored, app.core.clock.now())
}

/// Creates and activates a new key; returns its id, or `None` if the active one is young enough.
pub(crate) async fn rotate(app: &App, wish: &Wish<'_>) -> Result<Option<String>, ApiError> {
    let _lock = app.rotation.0.lock().await;
    let now = app.core.clock.now();
    let mut conn = app.core.pool.acquire().await?;
    if is_young(&store::signing_keys(&mut conn).await?, wish.age, now) {
        return Ok(None);
    }
    drop(conn);
    let key = tokio::task::spawn_blocking(make_signing_key).await.map_err(ApiError::internal)??;
    let mut tx = app.core.begin_as(wish.actor, wish.correlation).await?;
    store::lock_rotation(tx.conn()).await?;
    // Another process may have rotated first.
    if is_young(&store::signing_keys(tx.conn()).await?, wish.age, now) {
        tx.unchanged().await?;
        return Ok(None);
    }
    let replaced = store::replace_active(tx.conn(), now).await?;
    store::add_signing_key(tx.conn(), &key, now).await?;
    let stored = store::signing_keys(tx.conn()).await?;
    let reason = if wish.age.is_some() { "age" } else { "asked" };
    let payload = json!({ "replaced": replaced, "reason": reason });
    tx.commit(&event("signing_key.rotated", &key.kid, payload)).await?;
    take_up(&app.keys, &stored, now)?;
    Ok(Some(key.kid))
}

fn is_young(stored: &[StoredKey], age: Option<Duration>, now: OffsetDateTime) -> bool {
    let active = stored.iter().find(|key| key.replaced_at.is_none());
    match (age, active) {
        (Some(age), Some(active)) => now - active.created_at < age,
        _ => false,
    }
}

async fn remove_unneeded(core: &Core) -> Result<(), ApiError> {
    let mut tx = core.begin_as(ACTOR, None).await?;
    let removed = store::remove_replaced(tx.conn(), core.clock.now().saturating_sub(KEPT)).await?;
    if removed.is_empty() {
        return tx.unchanged().await;
    }
    for kid in removed {
        tx.record(&event("signing_key.removed", &kid, json!({}))).await?;
    }
    tx.commit_recorded().await
}

fn take_up(keys: &KeyRing, stored: &[StoredKey], now: OffsetDateTime) -> Result<(), ApiError> {
    Ok(keys.take_up(stored, now)?)
}

fn event(action: &'static str, kid: &str, payload: serde_json::Value) -> AuditEvent {
    AuditEvent { company: None, action, subject: format!("signing_key:{kid}"), payload }
}
