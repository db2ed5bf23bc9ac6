//! Marks one message or all messages as read, and counts unread ones.

use axum::extract::State;
use serde::Serialize;
use serde_json::json;
use service::{ApiError, Body, Data, LimitedRead, Permit};

use super::http::{sees, visible};
use super::rules::{Message, ReadAllBody, subject};
use super::store;
use crate::App;

/// Most unread messages that are counted; clients show "more than" beyond that.
pub(crate) const MAX_COUNTED: i64 = 1_000;
/// Most messages that one call marks; this takes far less than the statement timeout.
pub(crate) const MAX_MARKED: i64 = 10_000;

/// The number of unread messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Unread {
    /// At most [`MAX_COUNTED`].
    pub(crate) count: i64,
    /// Whether there are more.
    pub(crate) has_more: bool,
}

/// The result of marking all messages as read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Marked {
    /// The number of messages that were unread, at most [`MAX_MARKED`].
    pub(crate) marked: u64,
    /// Whether there may be more: repeat the call.
    pub(crate) has_more: bool,
}

/// Marks a message as read. The first call sets the time; later calls change nothing.
pub(crate) async fn one(State(app): State<App>, permit: Permit) -> Result<Data<Message>, ApiError> {
    let message = visible(&app, &permit, permit.path.id("messageId")?).await?;
    if message.read_at.is_some() {
        return Ok(Data(message));
    }
    let mut tx = permit.begin(&app.core).await?;
    let is_first = store::mark(&mut tx, message.id).await?;
    let read_at = store::read_at(&mut tx, message.id).await?;
    if is_first {
        tx.commit("message.read", subject(message.id), json!({})).await?;
    } else {
        tx.unchanged().await?;
    }
    Ok(Data(Message { read_at: Some(read_at.into()), ..message }))
}

pub(crate) async fn count(
    State(app): State<App>,
    permit: LimitedRead<Permit>,
) -> Result<Data<Unread>, ApiError> {
    let sees = sees(&app, &permit).await?;
    let found = store::unread(&app.core.pool, &permit, sees, MAX_COUNTED + 1).await?;
    Ok(Data(Unread { count: found.min(MAX_COUNTED), has_more: found > MAX_COUNTED }))
}

pub(crate) async fn all(
    State(app): State<App>,
    permit: Permit,
    Body(body): Body<ReadAllBody>,
) -> Result<Data<Marked>, ApiError> {
    let sees = sees(&app, &permit).await?;
    let mut tx = permit.begin(&app.core).await?;
    let marked = store::mark_all(&mut tx, sees, body.before, MAX_MARKED).await?;
    if marked == 0 {
        tx.unchanged().await?;
    } else {
        let company = tx.company();
        tx.commit("messages.read", format!("company:{company}"), json!({ "messages": marked })).await?;
    }
    Ok(Data(Marked { marked, has_more: i64::try_from(marked).is_ok_and(|marked| marked >= MAX_MARKED) }))
}
