//! `…/login-actions/reset-credentials`: requests an e-mail by user name or e-mail address. Response and work are the
//! same whether or not there is such an account, because the worker looks the account up.

use axum::extract::{Request, State};
use axum::response::Response;
use http::HeaderMap;
use service::ApiError;

use super::Kind;
use super::store::{self, Receiver};
use crate::form::{Params, is_same_origin, query};
use crate::login::guard::Source;
use crate::pages::lang::MAX_LOCALES_BYTES;
use crate::pages::{self, Lang};
use crate::refusal::PageError;
use crate::state::App;

/// Longest name that is looked up, as at a login.
const MAX_NAME_BYTES: usize = 255;

/// The language of a request, with the parameter that chose it, which the next address repeats.
pub(super) struct Language {
    pub(super) lang: Lang,
    pub(super) ui_locales: Option<String>,
}

impl Language {
    pub(super) fn of(query: &Params, headers: &HeaderMap) -> Result<Self, PageError> {
        if query.exceeds("ui_locales", MAX_LOCALES_BYTES) {
            return Err(PageError::bad("Invalid parameter: ui_locales"));
        }
        let ui_locales = query.get("ui_locales").map(ToOwned::to_owned);
        Ok(Self { lang: Lang::of(ui_locales.as_deref(), headers), ui_locales })
    }
}

/// Address of the form, in the language that the request chose.
pub(crate) fn address(issuer: &str, ui_locales: Option<&str>) -> String {
    format!("{issuer}/login-actions/reset-credentials{}", query(&[("ui_locales", ui_locales)]))
}

/// Shows the form.
pub(crate) async fn form(State(app): State<App>, request: Request) -> Result<Response, PageError> {
    let language = language(&request)?;
    must_send(&app)?;
    Ok(show(&app, &language, None))
}

/// Takes the form.
pub(crate) async fn ask(State(app): State<App>, request: Request) -> Result<Response, PageError> {
    let language = language(&request)?;
    let lang = language.lang;
    must_send(&app)?;
    // Another site's page must not use up what the visitor's address may ask for.
    if !is_same_origin(request.headers(), &app.realm.issuer) {
        return Err(PageError::unfit(|texts| texts.invalid_form));
    }
    let source = Source::address(request.headers());
    let form = Params::of_body(request).await?;
    let name = form.get("username").unwrap_or_default().trim().to_lowercase();
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') {
        return Ok(show(&app, &language, Some(lang.texts().name_needed)));
    }
    let now = app.core.clock.now();
    if app.letters_limits.admits(source, now.unix_timestamp()) {
        if !store::add(&app.core.pool, Kind::Reset, Receiver::Named(&name), lang, now).await? {
            return Err(PageError::busy());
        }
        app.letters_wake.notify_one();
    }
    Ok(pages::answer(pages::recovery::asked(lang)))
}

fn show(app: &App, language: &Language, problem: Option<&str>) -> Response {
    let action = address(&app.realm.issuer, language.ui_locales.as_deref());
    let form = pages::login::Form { lang: language.lang, action: &action, problem };
    pages::answer_account(pages::recovery::ask(&form))
}

fn language(request: &Request) -> Result<Language, PageError> {
    Language::of(&Params::of_query(request.uri().query())?, request.headers())
}

fn must_send(app: &App) -> Result<(), PageError> {
    if app.mailer.is_some() { Ok(()) } else { Err(PageError::unfit(|texts| texts.no_mail)) }
}

/// Queues the e-mail of an invitation. The caller wakes the worker after the commit.
pub(crate) async fn invite(
    tx: &mut service::AuditedTx,
    app: &App,
    user: uuid::Uuid,
    lang: Lang,
) -> Result<bool, ApiError> {
    let now = app.core.clock.now();
    Ok(store::add(tx.conn(), Kind::Invitation, Receiver::User(user), lang, now).await?)
}
