//! Grant `client_credentials`: tokens for a client's service account. Nothing is stored, so nothing is audited.

use http::StatusCode;

use crate::clients::rules::{Client, ClientKind};
use crate::form::{Params, printable};
use crate::refusal::OauthError;
use crate::state::App;
use crate::tokens::claims::Grant;
use crate::tokens::issue::{self, TokenSet};
use crate::tokens::scope::Scope;
use crate::users;

pub(super) async fn exchange(app: &App, client: &Client, params: &Params) -> Result<TokenSet, OauthError> {
    if client.kind == ClientKind::Frontend {
        return Err(unauthorized("Public client not allowed to retrieve service account"));
    }
    let asked = params.get("scope").unwrap_or_default();
    let scope = Scope::parse(asked).ok_or_else(|| {
        OauthError::new(
            StatusCode::BAD_REQUEST,
            "invalid_scope",
            format!("Invalid scopes: {}", printable(asked)),
        )
    })?;
    let account = users::store::service_account(&app.core.pool, &client.id).await?;
    let user = account.ok_or_else(|| unauthorized("Client not enabled to retrieve service account"))?;
    if !user.enabled {
        let description = format!("User '{}' disabled", client.service_account());
        return Err(OauthError::new(StatusCode::UNAUTHORIZED, "invalid_request", description));
    }
    let grant = Grant {
        issuer: &app.realm.issuer,
        realm: &app.realm.name,
        audience: &app.realm.audience,
        client,
        user: &user,
        login: None,
        scope,
        seed: None,
        now: app.core.clock.unix_seconds(),
    };
    Ok(issue::for_service_account(app, &grant)?)
}

fn unauthorized(description: &'static str) -> OauthError {
    OauthError::new(StatusCode::UNAUTHORIZED, "unauthorized_client", description)
}
