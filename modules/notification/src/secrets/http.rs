//! Shows and rotates the signing secret of a webhook. Reading one is audited.

use axum::extract::State;
use serde_json::{Value, json};
use service::refusal::{broken, conflict};
use service::{ApiError, CompanyTx, Data, Permit};

use super::rules::{OVERLAP, SecretText, SigningSecret};
use super::store::{self, Kept};
use crate::App;
use crate::channels::http::unknown;
use crate::channels::rules::{ChannelId, Kind, subject};

pub(crate) async fn show(State(app): State<App>, permit: Permit) -> Result<Data<SigningSecret>, ApiError> {
    let id: ChannelId = permit.path.id("channelId")?;
    let mut tx = permit.begin(&app.core).await?;
    let (kept, sealed) = of_webhook(&mut tx, id).await?;
    let secret = app.sealer().open(permit.company, id, &sealed).map_err(ApiError::internal)?;
    let until = kept.previous_expires_at.filter(|until| *until > app.core.clock.now());
    tx.commit("secret.read", subject(id), json!({})).await?;
    let secret = SecretText::of(secret.expose());
    Ok(Data(SigningSecret { secret, previous_secret_expires_at: until.map(Into::into) }))
}

/// Reads the secrets of a channel, which must be a webhook.
async fn of_webhook(tx: &mut CompanyTx, id: ChannelId) -> Result<(Kept, Vec<u8>), ApiError> {
    let (kind, mut kept) = store::lock(tx, id).await?.ok_or_else(unknown)?;
    if kind != Kind::Webhook {
        return Err(broken("NOT_A_WEBHOOK", "only webhooks have a signing secret", json!({})));
    }
    let sealed = kept.secret.take().ok_or_else(|| ApiError::internal("a webhook without a secret"))?;
    Ok((kept, sealed))
}

pub(crate) async fn rotate(State(app): State<App>, permit: Permit) -> Result<Data<SigningSecret>, ApiError> {
    let id: ChannelId = permit.path.id("channelId")?;
    let now = app.core.clock.now();
    let mut tx = permit.begin(&app.core).await?;
    let (kept, _) = of_webhook(&mut tx, id).await?;
    if kept.previous_expires_at.is_some_and(|until| until > now) {
        return Err(conflict(
            "ROTATION_IN_PROGRESS",
            "deliveries are still also signed with the previous secret; rotate again after it expires",
            Value::Null,
        ));
    }
    let sealed = app.sealer().seal_new(permit.company, id)?;
    let secret = app.sealer().open(permit.company, id, &sealed).map_err(ApiError::internal)?;
    let until = now + OVERLAP;
    store::rotate(&mut tx, id, &sealed, until).await?;
    tx.commit("secret.rotated", subject(id), json!({})).await?;
    let secret = SecretText::of(secret.expose());
    Ok(Data(SigningSecret { secret, previous_secret_expires_at: Some(until.into()) }))
}
