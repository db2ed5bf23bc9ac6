//! Publishes messages: the message, its jobs and its audit row are written in one transaction (the outbox), so an
//! accepted message is delivered and a refused one is not.

use contract::id::CompanyId;
use serde_json::json;
use service::refusal::broken;
use service::{ApiError, CompanyTx};
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{Content, MESSAGE_CREATED, MailPayload, Message, MessageId, webhook_payload};
use super::store;
use crate::app::Outbox;
use crate::channels::rules::{ChannelId, Kind};

/// Most addresses of one message; a channel for more people should be an in-app channel.
pub(crate) const MAX_RECIPIENTS: usize = 1_000;

/// The channel that a message goes through, locked until the transaction ends.
#[derive(Clone, Debug)]
pub(crate) struct Through {
    pub(crate) id: ChannelId,
    pub(crate) key: String,
    pub(crate) kind: Kind,
    pub(crate) target: Option<String>,
    /// Messages are stored but not delivered.
    pub(crate) is_disabled: bool,
}

/// The module and event that a message comes from.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) source_module: String,
    pub(crate) event_type: String,
    pub(crate) dedupe_key: String,
}

/// A published message and the number of its jobs.
#[derive(Debug)]
pub(crate) struct Published {
    pub(crate) message: Message,
    pub(crate) jobs: usize,
}

/// The deliveries to create for a message.
pub(crate) struct Jobs {
    pub(crate) kind: &'static str,
    pub(crate) payload: String,
    pub(crate) targets: Vec<String>,
}

/// Publishes a message; returns `None` when the event was already published.
///
/// # Errors
/// 422 `TOO_MANY_RECIPIENTS`.
pub(crate) async fn publish(
    tx: &mut CompanyTx,
    outbox: &Outbox,
    through: &Through,
    content: Content,
    origin: Option<&Origin>,
) -> Result<Option<Published>, ApiError> {
    let targets = targets(tx, through).await?;
    if targets.len() > MAX_RECIPIENTS {
        let message = "a message has at most 1000 recipients";
        return Err(broken("TOO_MANY_RECIPIENTS", message, json!({ "limit": MAX_RECIPIENTS })));
    }
    let (id, actor) = (MessageId::mint(), tx.actor().to_owned());
    let made = store::insert(tx, id, through.id, &content, &actor, origin).await?;
    let Some(created_at) = made else { return Ok(None) };
    let message = message(tx.company(), id, through.id, content, actor, created_at);
    let jobs = targets.len();
    if jobs > 0 {
        let kind = origin.map(|origin| format!("{}.{}", origin.source_module, origin.event_type));
        let kind = kind.as_deref().unwrap_or(MESSAGE_CREATED);
        let batch = batch(through, &message, created_at, kind, targets)?;
        store::insert_jobs(tx, outbox, &message, &batch).await?;
    }
    Ok(Some(Published { message, jobs }))
}

fn message(
    company: CompanyId,
    id: MessageId,
    channel: ChannelId,
    content: Content,
    created_by: String,
    created_at: OffsetDateTime,
) -> Message {
    Message {
        id,
        company_id: company,
        channel_id: channel,
        subject_line: content.subject_line,
        body: content.body,
        created_by,
        created_at: created_at.into(),
        read_at: None,
    }
}

/// The addresses that the message is sent to; none for a disabled channel.
async fn targets(tx: &mut CompanyTx, through: &Through) -> Result<Vec<String>, ApiError> {
    match through.kind {
        _ if through.is_disabled => Ok(Vec::new()),
        Kind::Webhook => Ok(through.target.clone().into_iter().collect()),
        Kind::InApp | Kind::Email => {
            let limit = i64::try_from(MAX_RECIPIENTS).map_err(ApiError::internal)? + 1;
            store::recipients(tx, through, limit).await
        }
    }
}

fn batch(
    through: &Through,
    message: &Message,
    created_at: OffsetDateTime,
    kind: &str,
    targets: Vec<String>,
) -> Result<Jobs, ApiError> {
    if through.kind == Kind::Webhook {
        let payload = webhook_payload(message, &through.key, kind)?;
        return Ok(Jobs { kind: "webhook", payload, targets });
    }
    let payload =
        MailPayload { subject_line: message.subject_line.clone(), body: message.body.clone(), created_at };
    let payload = serde_json::to_string(&payload).map_err(ApiError::internal)?;
    Ok(Jobs { kind: "email", payload, targets })
}

/// Mints the ids of jobs; they sort by creation time.
pub(crate) fn job_ids(jobs: &Jobs) -> Vec<Uuid> {
    jobs.targets.iter().map(|_| Uuid::now_v7()).collect()
}
