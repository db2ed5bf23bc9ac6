//! `…/login-actions/action-token`: the page behind the link in an e-mail. Opening it does not use the link up, because
//! mail programs open links on their own; saving the password does. A second factor is still required at the login.

use axum::extract::{Request, State};
use axum::response::Response;
use contract::CorrelationId;
use serde_json::json;
use service::{AuditEvent, Correlation};

use super::store;
use crate::form::Params;
use crate::keys::rules::sha256;
use crate::login::guard::Source;
use crate::pages::login::Form;
use crate::pages::{self, Lang};
use crate::refusal::PageError;
use crate::state::App;
use crate::users;
use crate::users::change::{self, NewPassword};
use crate::users::rules::User;

/// The address of a link.
pub(super) fn address(app: &App, key: &str) -> String {
    format!("{}?key={key}", action(app))
}

fn action(app: &App) -> String {
    format!("{}/login-actions/action-token", app.realm.issuer)
}

/// A valid link and its user.
struct Link {
    key: String,
    hash: Vec<u8>,
    kind: String,
    user: User,
}

/// Shows the form for the new password.
pub(crate) async fn open(State(app): State<App>, request: Request) -> Result<Response, PageError> {
    let query = Params::of_query(request.uri().query())?;
    let lang = Lang::of(None, request.headers());
    let link = find(&app, query.get("key")).await?;
    Ok(show(&app, lang, &link, None))
}

/// Takes the form.
pub(crate) async fn save(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let lang = Lang::of(None, request.headers());
    let source = Source::address(request.headers());
    let form = Params::of_body(request).await?;
    let link = find(&app, form.get("key")).await?;
    let wanted = NewPassword::of(&form);
    if let Err(unfit) = change::fits(&link.user, &wanted).await? {
        return Ok(show(&app, lang, &link, Some(unfit.message(lang.texts()))));
    }
    let turn = app.guard.line(Some(link.user.id), source, app.core.clock.unix_seconds());
    let hash = app.passwords.hash(turn, wanted.text()).await?;
    store_password(&app, &link, &hash, &correlation).await?;
    Ok(pages::answer(pages::recovery::saved(lang)))
}

async fn find(app: &App, key: Option<&str>) -> Result<Link, PageError> {
    let dead = || PageError::unfit(|texts| texts.dead_link);
    let key = key.ok_or_else(dead)?;
    let hash = sha256(key.as_bytes());
    let found = store::find_link(&app.core.pool, &hash, app.core.clock.now()).await?;
    let (user, kind) = found.ok_or_else(dead)?;
    let user = users::store::find(&app.core.pool, user).await?.filter(|user| user.enabled);
    Ok(Link { key: key.to_owned(), hash, kind, user: user.ok_or_else(dead)? })
}

/// Uses the link up, stores the password and ends every session, in one transaction.
async fn store_password(
    app: &App,
    link: &Link,
    password_hash: &str,
    correlation: &CorrelationId,
) -> Result<(), PageError> {
    let user = link.user.id;
    let mut tx = app.core.begin_as(&user.to_string(), Some(correlation.as_str())).await?;
    let is_open = users::store::lock_password(tx.conn(), user).await?.is_some()
        && store::take_link(tx.conn(), &link.hash, app.core.clock.now()).await?;
    if !is_open {
        tx.unchanged().await?;
        return Err(PageError::unfit(|texts| texts.dead_link));
    }
    users::store::replace_password(tx.conn(), user, password_hash, false).await?;
    users::store::end_sessions(tx.conn(), user, None).await?;
    let payload = json!({ "reason": link.kind });
    let subject = format!("user:{user}");
    tx.commit(&AuditEvent { company: None, action: "user.password_changed", subject, payload }).await?;
    Ok(())
}

fn show(app: &App, lang: Lang, link: &Link, problem: Option<&str>) -> Response {
    let action = action(app);
    let form = Form { lang, action: &action, problem };
    pages::answer(pages::recovery::choose(&form, &link.user.username, &link.key))
}
