//! The response to an authorization request after a login: a client session, a code that redeems it, and the redirect
//! that takes the code to the client.

use axum::response::Response;
use contract::CorrelationId;
use http::HeaderMap;
use serde_json::json;
use service::{AuditEvent, AuditedTx};
use time::OffsetDateTime;
use uuid::Uuid;

use super::device::{Account, Device};
use super::http::{redirect, set_cookie};
use super::rules::LoginRequest;
use super::store;
use super::ticket::{AccountPage, Destination, Proof};
use crate::account;
use crate::browser_sessions::{self, BrowserSession, Seen};
use crate::cookies::Keep;
use crate::keys::rules::{random_text, sha256};
use crate::meter::Outcome;
use crate::refusal::PageError;
use crate::state::App;
use crate::users;
use crate::users::passwords::CredentialDigest;

/// Completes a login after all factors and opens a new browser session; `None` if the proved credentials are no longer
/// valid.
pub(super) async fn to_login(
    app: &App,
    destination: &Destination,
    headers: &HeaderMap,
    proof: Proof,
    correlation: &CorrelationId,
) -> Result<Option<Response>, PageError> {
    let (user, secret) = (proof.user(), random_text()?);
    let now = app.core.clock.now();
    let mut tx = app.core.begin_as(&user.to_string(), Some(correlation.as_str())).await?;
    if !users::store::lock_proved(tx.conn(), proof).await? {
        tx.unchanged().await?;
        return Ok(None);
    }
    let (cookie_hash, seen) = (sha256(secret.as_bytes()), Seen::of(headers));
    let opened = browser_sessions::store::open(tx.conn(), &cookie_hash, user, &seen, now).await?;
    let Some(browser) = opened else {
        tx.unchanged().await?;
        return Ok(None);
    };
    let (password, has_second_factor) = match proof {
        Proof::Password(proved) => (Some(proved.password), proved.second_factor.is_some()),
        Proof::Passkey { .. } => {
            (users::store::password_hash(&mut *tx.conn(), user).await?.map(CredentialDigest::of), true)
        }
    };
    browser_sessions::store::end_oldest(tx.conn(), &browser).await?;
    if let Some(old) = browser_sessions::cookie_hash(headers) {
        browser_sessions::store::replace(tx.conn(), &old, &browser).await?;
    }
    let mut response = match destination {
        Destination::Client(request) => grant(app, tx, request, &browser, "login.succeeded", now).await?,
        Destination::Account { page, ui_locales } => {
            to_account(app, tx, *page, ui_locales.as_deref(), &browser).await?
        }
    };
    app.meter.login(Outcome::Succeeded);
    set_cookie(app, &mut response, browser_sessions::COOKIE, Keep::Session(&secret));
    let account = Account { user, password };
    Device::after_login(&app.keys, headers, account, has_second_factor, now.unix_timestamp())
        .remember(app, &mut response)?;
    Ok(Some(response))
}

/// Responds from the browser's session, without a form; `None` if the session has ended meanwhile.
pub(super) async fn to_session(
    app: &App,
    request: &LoginRequest,
    browser: &BrowserSession,
    correlation: &CorrelationId,
) -> Result<Option<Response>, PageError> {
    let now = app.core.clock.now();
    let mut tx = app.core.begin_as(&browser.user_id.to_string(), Some(correlation.as_str())).await?;
    if !browser_sessions::store::keep(tx.conn(), browser.id, now).await? {
        tx.unchanged().await?;
        return Ok(None);
    }
    let response = grant(app, tx, request, browser, "login.resumed", now).await?;
    app.meter.login(Outcome::Resumed);
    Ok(Some(response))
}

/// Redirects to an account page, which needs no client session because it is the provider's own.
async fn to_account(
    app: &App,
    tx: AuditedTx,
    page: AccountPage,
    ui_locales: Option<&str>,
    browser: &BrowserSession,
) -> Result<Response, PageError> {
    let event = AuditEvent {
        company: None,
        action: "login.succeeded",
        subject: format!("browser-session:{}", browser.id),
        payload: json!({ "clientId": "account", "userId": browser.user_id }),
    };
    tx.commit(&event).await?;
    Ok(redirect(&account::address(app, page, ui_locales)))
}

async fn grant(
    app: &App,
    mut tx: AuditedTx,
    request: &LoginRequest,
    browser: &BrowserSession,
    action: &'static str,
    now: OffsetDateTime,
) -> Result<Response, PageError> {
    let (session, code) = (Uuid::new_v4(), random_text()?);
    store::open_session(tx.conn(), session, browser, &request.client_id, now).await?;
    store::end_oldest(tx.conn(), session, browser, &request.client_id).await?;
    store::add_code(tx.conn(), session, &sha256(code.as_bytes()), request, now).await?;
    let event = AuditEvent {
        company: None,
        action,
        subject: format!("session:{session}"),
        payload: json!({ "clientId": request.client_id, "userId": browser.user_id }),
    };
    tx.commit(&event).await?;
    let session = session.to_string();
    let outcome = [("session_state", session.as_str()), ("code", code.as_str())];
    Ok(redirect(&request.target.answer(&app.realm.issuer, &outcome)))
}
