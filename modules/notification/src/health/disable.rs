//! Disables a channel that nothing can be delivered to, and posts a message about it to the company's alert channel.

use serde_json::json;
use service::{ApiError, CompanyTx};

use super::rules::{ALERTS, Disabled};
use super::store;
use crate::app::Outbox;
use crate::channels::rules::{ChannelId, Kind, subject};
use crate::messages;
use crate::messages::publish::publish;
use crate::messages::rules::Content;

/// Disables the channel, once, in the transaction that settles the delivery.
pub(crate) async fn disable(
    tx: &mut CompanyTx,
    outbox: &Outbox,
    id: ChannelId,
    reason: Disabled,
) -> Result<(), ApiError> {
    let Some(key) = store::disable(tx, id, reason).await? else { return Ok(()) };
    tx.record("channel.disabled", subject(id), json!({ "reason": reason })).await?;
    alert(tx, outbox, &key, reason).await
}

async fn alert(tx: &mut CompanyTx, outbox: &Outbox, key: &str, reason: Disabled) -> Result<(), ApiError> {
    let found = messages::store::through_key(tx, ALERTS).await?;
    let Some(through) = found.filter(|through| through.kind == Kind::InApp) else { return Ok(()) };
    let why = match reason {
        Disabled::Gone => "its receiver answers that it is gone (410)",
        Disabled::Failing => "no delivery has arrived for more than a day",
    };
    let content = Content {
        subject_line: format!("Channel {key} is disabled"),
        body: format!(
            "Nothing is delivered to the channel {key} any more: {why}. Enable it when its receiver works."
        ),
    };
    match publish(tx, outbox, &through, content, None).await {
        Ok(Some(published)) => {
            let told = json!({ "channelId": through.id, "deliveries": published.jobs });
            tx.record("message.created", messages::rules::subject(published.message.id), told).await
        }
        Ok(None) => Ok(()),
        // The alert channel has more subscribers than a message may have; the channel is disabled anyway.
        Err(ApiError::Unprocessable { message, .. }) => {
            tracing::warn!(channel = %through.id, %message, "could not post an alert that a channel was disabled");
            Ok(())
        }
        Err(error) => Err(error),
    }
}
