//! Lists, creates and shows messages.

use axum::extract::State;
use contract::page::Page;
use http::HeaderMap;
use serde_json::json;
use service::idempotency::{self, Done, Key, Once};
use service::refusal::{broken, not_yours};
use service::{ApiError, Data, LimitedRead, Permit, Query, RawBody};

use super::list;
use super::publish::publish;
use super::rules::{Message, MessageBody, MessageId, Sees, subject};
use super::store;
use crate::channels::rules::Kind;
use crate::{App, operations};

/// The operation's name in stored responses.
const CREATE: &str = "createMessage";

pub(crate) async fn list(
    State(app): State<App>,
    permit: LimitedRead<Permit>,
    query: Query,
) -> Result<Data<Page<Message>>, ApiError> {
    let page = query.page()?;
    let sees = sees(&app, &permit).await?;
    Ok(Data(list::list(&app.core.pool, &permit, sees, page).await?))
}

/// Determines what the caller sees: everything after a second decision, otherwise the caller's subscriptions.
pub(super) async fn sees(app: &App, permit: &Permit) -> Result<Sees, ApiError> {
    if app.permits.probe(permit, &operations::MESSAGES_READ_ALL).await? {
        return Ok(Sees::All);
    }
    let member = app.org.member_context_if_any(permit).await?;
    Ok(Sees::Own(member.map(|context| context.member)))
}

pub(crate) async fn create(
    State(app): State<App>,
    permit: Permit,
    headers: HeaderMap,
    body: RawBody,
) -> Result<Once<Message>, ApiError> {
    let key = Key::of(&headers)?;
    let MessageBody { channel, content } = body.parse()?;
    let told = json!({ "channelId": channel, "subjectLine": content.subject_line, "body": content.body });
    let attempt = key.map(|key| key.attempt(permit.company, CREATE, &[], &told));
    let tx = permit.begin(&app.core).await?;
    let answer = idempotency::once(tx, attempt.as_ref(), async |tx| {
        let unknown = || broken("CHANNEL_UNKNOWN", "the company has no such channel", json!({}));
        let through = store::through(tx, channel).await?.ok_or_else(unknown)?;
        let published = publish(tx, &app.outbox, &through, content, None).await?;
        let published = published.ok_or_else(|| ApiError::internal("only events are published once"))?;
        let told = json!({ "channelId": channel, "deliveries": published.jobs });
        let event = tx.event("message.created", subject(published.message.id), told);
        let resource = Some(published.message.id.as_uuid());
        Ok(Done { answer: published.message, resource, event })
    })
    .await?;
    app.wake();
    Ok(answer)
}

pub(crate) async fn show(State(app): State<App>, permit: Permit) -> Result<Data<Message>, ApiError> {
    visible(&app, &permit, permit.path.id("messageId")?).await.map(Data)
}

/// Finds a message that the caller may see.
pub(super) async fn visible(app: &App, permit: &Permit, id: MessageId) -> Result<Message, ApiError> {
    let found = store::find(&app.core.pool, permit, id).await?;
    let (message, kind) = found.ok_or(ApiError::NotFound("message".into()))?;
    if kind == Kind::InApp {
        return Ok(message);
    }
    let may = match sees(app, permit).await? {
        Sees::All => true,
        own @ Sees::Own(_) => {
            store::is_subscribed(&app.core.pool, permit, message.channel_id, own.member()).await?
        }
    };
    let refused = || not_yours("NOT_SUBSCRIBED", "the caller does not subscribe to the message's channel");
    if may { Ok(message) } else { Err(refused()) }
}
