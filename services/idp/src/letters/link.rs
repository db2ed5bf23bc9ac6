//! `…/login-actions/action-token`: the page behind the link in an e-mail. Opening it does not use the link up, because
//! mail programs open links on their own; saving the password does. A second factor is still required at the login.

use axum::extract::{Request, State};
use axum::response::Response;
use contract::CorrelationId;
use http::StatusCode;
use serde_json::json;
use service::{AuditEvent, Correlation};

use super::http::Language;
use super::store;
use crate::account;
use crate::form::{Params, query};
use crate::keys::rules::sha256;
use crate::login::guard::Source;
use crate::login::ticket::AccountPage;
use crate::pages::login::Form;
use crate::pages::{self, Lang};
use crate::refusal::PageError;
use crate::state::App;
use crate::users;
use crate::users::change::{self, NewPassword};
use crate::users::rules::User;

/// The address of a link, which opens its page in the e-mail's language.
pub(super) fn address(app: &App, key: &str, lang: Lang) -> String {
    path(app, &[("key", Some(key)), ("ui_locales", Some(lang.texts().lang))])
}

fn path(app: &App, pairs: &[(&str, Option<&str>)]) -> String {
    format!("{}/login-actions/action-token{}", app.realm.issuer, query(pairs))
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
    let language = Language::of(&query, request.headers())?;
    Ok(match find(&app, query.get("key")).await? {
        Some(link) => show(&app, &language, &link, None),
        None => dead(&app, &language),
    })
}

/// Takes the form.
pub(crate) async fn save(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let query = Params::of_query(request.uri().query())?;
    let language = Language::of(&query, request.headers())?;
    let (lang, source) = (language.lang, Source::address(request.headers()));
    let form = Params::of_body(request).await?;
    let Some(link) = find(&app, form.get("key")).await? else { return Ok(dead(&app, &language)) };
    let wanted = NewPassword::of(&form);
    if let Err(unfit) = change::fits(&link.user, &wanted).await? {
        return Ok(show(&app, &language, &link, Some(unfit.message(lang.texts()))));
    }
    let turn = app.guard.line(Some(link.user.id), source, app.core.clock.unix_seconds());
    let hash = app.passwords.hash(turn, wanted.text()).await?;
    if !store_password(&app, &link, &hash, &correlation).await? {
        return Ok(dead(&app, &language));
    }
    let account = account::address(&app, AccountPage::Account, language.ui_locales.as_deref());
    Ok(pages::answer(pages::recovery::saved(lang, &account)))
}

/// The link of a key, unless it was used or removed, or has expired, or its user is disabled.
async fn find(app: &App, key: Option<&str>) -> Result<Option<Link>, PageError> {
    let Some(key) = key else { return Ok(None) };
    let hash = sha256(key.as_bytes());
    let found = store::find_link(&app.core.pool, &hash, app.core.clock.now()).await?;
    let Some((user, kind)) = found else { return Ok(None) };
    let user = users::store::find(&app.core.pool, user).await?.filter(|user| user.enabled);
    Ok(user.map(|user| Link { key: key.to_owned(), hash, kind, user }))
}

/// Uses the link up, stores the password and ends every session, in one transaction; false if the link was used
/// meanwhile.
async fn store_password(
    app: &App,
    link: &Link,
    password_hash: &str,
    correlation: &CorrelationId,
) -> Result<bool, PageError> {
    let user = link.user.id;
    let mut tx = app.core.begin_as(&user.to_string(), Some(correlation.as_str())).await?;
    let is_open = users::store::lock_password(tx.conn(), user).await?.is_some()
        && store::take_link(tx.conn(), &link.hash, app.core.clock.now()).await?;
    if !is_open {
        tx.unchanged().await?;
        return Ok(false);
    }
    users::store::replace_password(tx.conn(), user, password_hash, false).await?;
    users::store::end_sessions(tx.conn(), user, None).await?;
    let payload = json!({ "reason": link.kind });
    let subject = format!("user:{user}");
    tx.commit(&AuditEvent { company: None, action: "user.password_changed", subject, payload }).await?;
    Ok(true)
}

/// The page of a link that is no longer valid: 400, with the form for a new one if e-mails can be sent.
fn dead(app: &App, language: &Language) -> Response {
    let ask = super::http::address(&app.realm.issuer, language.ui_locales.as_deref());
    let ask = app.mailer.is_some().then_some(ask.as_str());
    let mut response = pages::answer(pages::recovery::dead(language.lang, ask));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response
}

fn show(app: &App, language: &Language, link: &Link, problem: Option<&str>) -> Response {
    let action = path(app, &[("ui_locales", language.ui_locales.as_deref())]);
    let form = Form { lang: language.lang, action: &action, problem };
    pages::answer(pages::recovery::choose(&form, &link.user.username, &link.key))
}
