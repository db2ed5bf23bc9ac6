//! Handlers of `…/protocol/openid-connect/logout`: by redirect with an ID token, or by a form with a refresh token.

use axum::extract::{Request, State};
use axum::response::{Html, IntoResponse, Response};
use contract::CorrelationId;
use http::{HeaderMap, StatusCode};
use serde_json::json;
use service::{ApiError, AuditEvent, Correlation};
use uuid::Uuid;

use crate::clients;
use crate::clients::rules::{Client, MAX_CLIENT_ID_BYTES};
use crate::form::Params;
use crate::keys::rules::Purpose;
use crate::login::http::redirect;
use crate::login::page;
use crate::logout::rules::{self, Hint, Unfit};
use crate::refusal::{OauthError, PageError};
use crate::state::App;
use crate::tokens;
use crate::tokens::claims::RefreshClaims;

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
    by_id_token(&app, &Params::of_query(request.uri().query())?, &correlation).await
}

/// `POST` of the same: the same parameters as a form, or a client that gives its refresh token back (204).
pub(crate) async fn by_form(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, PageError> {
    let headers = request.headers().clone();
    let params = Params::of_body(request).await?;
    match params.get("refresh_token") {
        None => by_id_token(&app, &params, &correlation).await,
        Some(token) => {
            let ended = by_refresh_token(&app, &headers, &params, token, &correlation).await;
            Ok(ended.map(|()| StatusCode::NO_CONTENT).into_response())
        }
    }
}

/// Everything is checked before anything ends: a refused request changes nothing.
async fn by_id_token(app: &App, params: &Params, correlation: &CorrelationId) -> Result<Response, PageError> {
    rules::check(params)?;
    let hint = params.get("id_token_hint").map(|token| hint_of(app, token)).transpose()?;
    let client = asking_client(app, rules::client_id(params, hint.as_ref())?).await?;
    let target = rules::target(params, client.as_ref())?;
    if let Some(Hint { sub, azp, sid: Some(session), .. }) = &hint {
        end_session(app, *session, *sub, azp, correlation).await?;
    }
    Ok(target.map_or_else(goodbye, |target| redirect(&target)))
}

fn hint_of(app: &App, token: &str) -> Result<Hint, Unfit> {
    let hint: Option<Hint> = app.keys.verify_old(token);
    let own = hint.filter(|hint| hint.iss == app.realm.issuer && hint.typ == "ID");
    own.ok_or(Unfit::Invalid("id_token_hint"))
}

async fn asking_client(app: &App, client_id: Option<&str>) -> Result<Option<Client>, PageError> {
    let Some(client_id) = client_id else { return Ok(None) };
    if client_id.len() > MAX_CLIENT_ID_BYTES {
        return Err(Unfit::UnknownClient.into());
    }
    let client = clients::store::find(&app.core.pool, client_id).await?;
    Ok(Some(client.filter(|client| client.enabled).ok_or(Unfit::UnknownClient)?))
}

/// Whoever holds a refresh token of a session, even one that was replaced or has run out, may end it.
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
    end_session(app, claims.sid, claims.sub, &client.id, correlation).await?;
    Ok(())
}

/// Ends it if it is there: logging out twice is no mistake.
async fn end_session(
    app: &App,
    session: Uuid,
    user: Uuid,
    client_id: &str,
    correlation: &CorrelationId,
) -> Result<(), ApiError> {
    let mut tx = app.core.begin_as(&user.to_string(), Some(correlation.as_str())).await?;
    if !tokens::store::end_session(tx.conn(), session).await? {
        return tx.unchanged().await;
    }
    tx.commit(&AuditEvent {
        company: None,
        action: "session.ended",
        subject: format!("session:{session}"),
        payload: json!({ "clientId": client_id, "reason": "logout" }),
    })
    .await
}

fn goodbye() -> Response {
    let mut response = Html(page::logged_out()).into_response();
    page::protect(&mut response);
    response
}
