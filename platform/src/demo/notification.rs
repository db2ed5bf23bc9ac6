//! Notifications of the demo: an in-app channel and one message in it.

use serde_json::json;

use super::api::{having, text};
use super::bar::Bar;
use super::cast::{NEWS, WELCOME};
use super::org::Company;
use super::people::People;
use crate::stop::Stop;

/// Steps of [`fill`].
pub(super) const STEPS: usize = 2;

/// Creates what is missing.
pub(super) async fn fill(people: &People, company: &Company, bar: &mut Bar) -> Result<(), Stop> {
    let admin = &people.administrator.api;
    let base = format!("/api/notification/v1/companies/{}", company.id);
    bar.stage("news");
    let (key, label) = NEWS;
    let known = admin.list(&format!("{base}/channels")).await?;
    let found = having(&known, "key", key).map(|row| text(row, "id"));
    bar.step(found.is_none());
    let channel = if let Some(id) = found {
        id
    } else {
        let body = json!({"key": key, "label": label, "kind": "in_app"});
        text(&admin.post(&format!("{base}/channels"), &body).await?, "id")
    };
    let (subject, body) = WELCOME;
    let sent = admin.list(&format!("{base}/messages")).await?;
    let is_new = having(&sent, "subjectLine", subject).is_none();
    if is_new {
        let body = json!({"channelId": channel, "subjectLine": subject, "body": body});
        admin.post(&format!("{base}/messages"), &body).await?;
    }
    bar.step(is_new);
    Ok(())
}
