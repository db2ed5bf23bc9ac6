//! `…/login-actions/reset-credentials`: requests an e-mail by user name or e-mail address. Response and work are the
//! same whether or not there is such an account, because the worker looks the account up.

use axum::extract::{Request, State};
use axum::response::Response;
use service::ApiError;

use super::Kind;
use super::store::{self, Receiver};
use crate::form::Params;
use crate::login::guard::Source;
use crate::pages::lang::MAX_LOCALES_BYTES;
use crate::pages::{self, Lang};
use crate::refusal::PageError;
use crate::state::App;

/// Longest name that is looked up, as at a login.
const MAX_NAME_BYTES: usize = 255;

/// Address of the form.
pub(crate) fn address(issuer: &str) -> String {
    format!("{issuer}/login-actions/reset-credentials")
}

/// Shows the form.
pub(crate) async fn form(State(app): State<App>, request: Request) -> Result<Response, PageError> {
    let lang = lang(&request)?;
    must_send(&app)?;
    Ok(show(&app, lang, None))
}

/// Takes the form.
pub(crate) async fn ask(State(app): State<App>, request: Request) -> Result<Response, PageError> {
    let lang = lang(&request)?;
    must_send(&app)?;
    let source = Source::address(request.headers());
    let form = Params::of_body(request).await?;
    let name = form.get("username").unwrap_or_default().trim().to_lowercase();
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') {
        return Ok(show(&app, lang, Some(lang.texts().name_needed)));
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

fn show(app: &App, lang: Lang, problem: Option<&str>) -> Response {
    let action = address(&app.realm.issuer);
    pages::answer(pages::recovery::ask(&pages::login::Form { lang, action: &action, problem }))
}

fn lang(request: &Request) -> Result<Lang, PageError> {
    let query = Params::of_query(request.uri().query())?;
    if query.exceeds("ui_locales", MAX_LOCALES_BYTES) {
        return Err(PageError::bad("Invalid parameter: ui_locales"));
    }
    Ok(Lang::of(query.get("ui_locales"), request.headers()))
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
