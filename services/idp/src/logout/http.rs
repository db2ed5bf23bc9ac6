//! Handlers of `…/protocol/openid-connect/logout`: by redirect with an ID token, by form with a refresh token or, for a
//! signed-in browser that sends neither, after its user has confirmed.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use contract::CorrelationId;
use http::{HeaderMap, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use service::{ApiError, AuditEvent, Correlation};
use uuid::Uuid;

use crate::account;
use crate::browser_sessions::{self, BrowserSession};
use crate::clients;
use crate::clients::rules::{Client, MAX_CLIENT_ID_BYTES};
use crate::cookies::Keep;
use crate::form::Params;
use crate::keys::rules::Purpose;
use crate::login::http::{redirect, set_cookie};
use crate::login::ticket::AccountPage;
use crate::logout::rules::{self, Unfit};
use crate::pages::lang::MAX_LOCALES_BYTES;
use crate::pages::{self, Lang};
use crate::refusal::{OauthError, PageError};
use crate::state::App;
use crate::tokens;
use crate::tokens::claims::RefreshClaims;
use crate::tokens::hint::{self, Hint};

/// Form field with which a user confirms a logout.
const CONFIRMATION: &str = "session_code";

/// The sealed content of the field: the session that the page was shown for.
#[derive(Serialize, Deserialize)]
struct Confirmation {
    browser_session: Uuid,
}

impl From<Unfit> for PageError {
    fn from(problem: Unfit) -> Self {
        Self::bad(problem.to_string())
    }
}

/// `GET /realms/{realm}/protocol/openid-connect/logout`.
pub(crate) async fn by_link(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let params = Params::of_query(request.uri().query())?;
    by_browser(&app, request.headers(), &params, &correlation).await
}

/// `POST` of the same address: the same parameters as a form, or a client that returns its refresh token (204).
pub(crate) async fn by_form(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let headers = request.headers().clone();
    let params = Params::of_body(request).await?;
    match params.get("refresh_token") {
        None => by_browser(&app, &headers, &params, &correlation).await,
        Some(token) => {
            let ended = by_refresh_token(&app, &headers, &params, token, &correlation).await;
            Ok(ended.map(|()| StatusCode::NO_CONTENT).into_response())
        }
    }
}

/// Logs a browser out. Checks everything before ending anything, so that a refused request changes nothing.
async fn by_browser(
    app: &App,
    headers: &HeaderMap,
    params: &Params,
    correlation: &CorrelationId,
) -> Result<Response, PageError> {
    rules::check(params)?;
    let lang = Lang::of(params.get("ui_locales"), headers);
    let hint = params.get("id_token_hint").map(|token| hint_of(app, token)).transpose()?;
    let client = asking_client(app, rules::client_id(params, hint.as_ref())?).await?;
    let target = rules::target(params, client.as_ref())?;
    let browser = browser_sessions::of(app, headers).await?;
    if let (None, Some(browser)) = (&hint, &browser)
        && !is_confirmed(app, params, browser)
    {
        return ask(app, params, browser, lang);
    }
    if let Some(Hint { sub, azp, sid: Some(session), .. }) = &hint {
        end_login(app, *session, *sub, azp, correlation).await?;
    }
    let asks_for_it = |browser: &BrowserSession| hint.as_ref().is_none_or(|hint| hint.sub == browser.user_id);
    let own = browser.filter(asks_for_it);
    if let Some(browser) = &own {
        end_browser(app, browser, correlation).await?;
    }
    let mut response = target.map_or_else(|| goodbye(app, params, lang), |target| redirect(&target));
    if own.is_some() {
        set_cookie(app, &mut response, browser_sessions::COOKIE, Keep::Remove);
    }
    Ok(response)
}

/// Shows the confirmation page. A link from anywhere must not log a user out, so a link without an ID token only asks.
fn ask(app: &App, params: &Params, browser: &BrowserSession, lang: Lang) -> Result<Response, PageError> {
    let code = Confirmation { browser_session: browser.id };
    let claims = serde_json::to_value(code).map_err(ApiError::internal)?;
    let code = app.keys.seal(Purpose::LogoutCode, &claims).map_err(ApiError::from)?;
    let mut fields = vec![(CONFIRMATION, code.as_str())];
    for name in ["client_id", "post_logout_redirect_uri", "state"] {
        fields.extend(params.get(name).map(|value| (name, value)));
    }
    fields.extend(locales(params).map(|value| ("ui_locales", value)));
    let action = format!("{}/protocol/openid-connect/logout", app.realm.issuer);
    Ok(pages::answer(pages::login::confirm_logout(lang, &action, &fields)))
}

fn is_confirmed(app: &App, params: &Params, browser: &BrowserSession) -> bool {
    let code = params.get(CONFIRMATION).and_then(|code| app.keys.open(Purpose::LogoutCode, code));
    code.is_some_and(|code: Confirmation| code.browser_session == browser.id)
}

fn hint_of(app: &App, token: &str) -> Result<Hint, Unfit> {
    hint::read(app, token).ok_or(Unfit::Invalid("id_token_hint"))
}

async fn asking_client(app: &App, client_id: Option<&str>) -> Result<Option<Client>, PageError> {
    let Some(client_id) = client_id else { return Ok(None) };
    if client_id.len() > MAX_CLIENT_ID_BYTES {
        return Err(Unfit::UnknownClient.into());
    }
    let client = clients::store::find(&app.core.pool, client_id).await?;
    Ok(Some(client.filter(|client| client.enabled).ok_or(Unfit::UnknownClient)?))
}

/// Ends the session of a refresh token, even of one that was replaced or has expired.
async fn by_refresh_token(
    app: &App,
    headers: &HeaderMap,
    params: &Params,
    token: &str,
    correlation: &CorrelationId,
) -> Result<(), OauthError> {
    let client = tokens::client_auth::authenticate(app, headers, params).await?;
    let claims: Option<RefreshClaims> = app.keys.open(Purpose::RefreshToken, token);
    let own = claims.filter(|claims| claims.azp == client.id);
    let claims = own.ok_or_else(|| OauthError::invalid_grant("Invalid refresh token"))?;
    end_login(app, claims.sid, claims.sub, &client.id, correlation).await?;
    Ok(())
}

/// Ends the session of a client and all other sessions of its browser. Logging out twice is not an error.
async fn end_login(
    app: &App,
    session: Uuid,
    user: Uuid,
    client_id: &str,
    correlation: &CorrelationId,
) -> Result<(), ApiError> {
    let mut tx = app.core.begin_as(&user.to_string(), Some(correlation.as_str())).await?;
    if let Some(browser) = browser_sessions::store::above(&mut *tx.conn(), session).await? {
        browser_sessions::store::end(tx.conn(), browser).await?;
    } else if !tokens::store::end_session(tx.conn(), session).await? {
        return tx.unchanged().await;
    }
    let payload = json!({ "clientId": client_id, "reason": "logout" });
    tx.commit(&ended(format!("session:{session}"), payload)).await
}

/// Ends a browser's session.
async fn end_browser(
    app: &App,
    browser: &BrowserSession,
    correlation: &CorrelationId,
) -> Result<(), ApiError> {
    let mut tx = app.core.begin_as(&browser.user_id.to_string(), Some(correlation.as_str())).await?;
    if !browser_sessions::store::end(tx.conn(), browser.id).await? {
        return tx.unchanged().await;
    }
    tx.commit(&ended(format!("browser-session:{}", browser.id), json!({ "reason": "logout" }))).await
}

fn ended(subject: String, payload: Value) -> AuditEvent {
    AuditEvent { company: None, action: "session.ended", subject, payload }
}

fn goodbye(app: &App, params: &Params, lang: Lang) -> Response {
    let account = account::address(app, AccountPage::Account, locales(params));
    pages::answer(pages::login::logged_out(lang, &account))
}

/// `ui_locales`, if it may be sent on.
fn locales(params: &Params) -> Option<&str> {
    params.get("ui_locales").filter(|locales| locales.len() <= MAX_LOCALES_BYTES)
}
