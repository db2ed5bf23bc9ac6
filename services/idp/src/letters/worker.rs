//! Sends queued e-mails: finds the account, creates its link, and hands the e-mail to the mail server. A failed attempt
//! is retried. After a crash an e-mail may arrive twice; only its last link is valid.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use service::workers::{Next, Pace};
use service::{ApiError, AuditEvent};

use super::store::{self, NewLink, Waiting};
use super::{Kind, Mailer, text};
use crate::keys::rules::{random_text, sha256};
use crate::pages::Lang;
use crate::state::App;
use crate::users;
use crate::users::rules::User;

/// Actor of the audit rows.
const ACTOR: &str = "system:letters";
/// Interval of polling the queue when nothing wakes the worker.
const EVERY: Duration = Duration::from_secs(10);
/// Time limit of one attempt; shorter than the lease, after which another worker may claim the e-mail.
const TOTAL: Duration = Duration::from_secs(30);
const LEASE: time::Duration = time::Duration::minutes(2);
/// Pause before the second attempt; each later pause is longer by as much.
const AGAIN: time::Duration = time::Duration::minutes(1);
/// Attempts before an e-mail is abandoned, because a requested link would arrive too late.
const MAX_ATTEMPTS: i32 = 5;
/// Most valid links of each kind per account, and so most e-mails within a link's lifetime.
pub(crate) const MAX_LINKS: i64 = 3;

/// Sends e-mails until the service stops.
pub(crate) fn start(app: &App) {
    let Some(mailer) = app.mailer.clone() else { return };
    let (aside, wake) = (app.for_workers(), Arc::clone(&app.letters_wake));
    app.core.workers.every("letters", Pace::every(EVERY).woken_by(wake), move || {
        let (app, mailer) = (aside.clone(), mailer.clone());
        async move { step(&app, &mailer).await }
    });
}

/// Sends one e-mail.
async fn step(app: &App, mailer: &Mailer) -> Result<Next, ApiError> {
    let now = app.core.clock.now();
    let Some(waiting) = store::claim(&app.core.pool, now, now.saturating_add(LEASE)).await? else {
        return Ok(Next::Interval);
    };
    if let Some((user, kind, link)) = link(app, &waiting).await? {
        send(app, mailer, &waiting, &user, kind, &link).await?;
    } else {
        store::remove(&app.core.pool, waiting.id).await?;
    }
    Ok(Next::In(Duration::ZERO))
}

/// Returns the receiver, the kind and a new link; `None` if there is no such account, it cannot receive mail, or it has
/// too many links.
async fn link(app: &App, waiting: &Waiting) -> Result<Option<(User, Kind, String)>, ApiError> {
    let (Some(user), Some(kind)) = (receiver(app, waiting).await?, Kind::parse(&waiting.kind)) else {
        return Ok(None);
    };
    let (key, now) = (random_text()?, app.core.clock.now());
    let hash = sha256(key.as_bytes());
    let link = NewLink { hash: &hash, letter: waiting.id, user: user.id, kind, now };
    let mut tx = app.core.begin_as(ACTOR, None).await?;
    if !store::add_link(tx.conn(), &link, MAX_LINKS).await? {
        tx.unchanged().await?;
        return Ok(None);
    }
    let subject = format!("user:{}", user.id);
    let payload = json!({ "kind": kind.as_str() });
    tx.commit(&AuditEvent { company: None, action: "password_link.created", subject, payload }).await?;
    Ok(Some((user, kind, super::link::address(app, &key, lang_of(waiting)))))
}

async fn receiver(app: &App, waiting: &Waiting) -> Result<Option<User>, ApiError> {
    let pool = &app.core.pool;
    let found = match (&waiting.name, waiting.user_id) {
        (Some(name), _) => users::store::find_login(pool, name).await?.map(|login| login.user),
        (None, Some(user)) => users::store::find(pool, user).await?,
        (None, None) => None,
    };
    let takes_mail = |user: &User| user.enabled && user.service_client.is_none() && user.email.is_some();
    Ok(found.filter(takes_mail))
}

async fn send(
    app: &App,
    mailer: &Mailer,
    waiting: &Waiting,
    user: &User,
    kind: Kind,
    link: &str,
) -> Result<(), ApiError> {
    let letter = text::letter(kind, lang_of(waiting), &user.username, link);
    let to = user.email.as_deref().unwrap_or_default();
    let sent = tokio::time::timeout(TOTAL, mailer.send(waiting.id, to, &letter)).await;
    match sent {
        Ok(Ok(())) => store::remove(&app.core.pool, waiting.id).await?,
        Ok(Err(error)) => failed(app, waiting, &error.to_string(), error.is_passing()).await?,
        Err(_) => failed(app, waiting, "the mail server was too slow", true).await?,
    }
    Ok(())
}

fn lang_of(waiting: &Waiting) -> Lang {
    if waiting.lang == "de" { Lang::De } else { Lang::En }
}

/// Postpones or abandons an e-mail. The log names its id, never its receiver.
async fn failed(app: &App, waiting: &Waiting, error: &str, is_passing: bool) -> Result<(), ApiError> {
    let (id, kind, attempts) = (waiting.id, waiting.kind.as_str(), waiting.attempts);
    if is_passing && attempts < MAX_ATTEMPTS {
        tracing::warn!(%id, kind, attempts, error, "sending an e-mail failed; it will be retried");
        let delay = AGAIN.checked_mul(attempts).unwrap_or(AGAIN);
        store::postpone(&app.core.pool, id, app.core.clock.now().saturating_add(delay)).await?;
    } else {
        tracing::error!(%id, kind, attempts, error, "an e-mail was abandoned after failed attempts");
        store::remove(&app.core.pool, id).await?;
    }
    Ok(())
}
