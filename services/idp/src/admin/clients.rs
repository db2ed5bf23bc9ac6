//! `GET /admin/realms/{realm}/clients` and `…/clients/{id}/service-account-user`: the service account of a client. Here
//! a client's id within the realm is its `client_id`; Keycloak generates one.

use axum::Json;
use axum::extract::{RawQuery, State};
use http::StatusCode;
use serde_json::{Value, json};
use service::PathParams;

use crate::admin::caller::Administrator;
use crate::admin::rules;
use crate::clients::rules::{Client, ClientKind, MAX_CLIENT_ID_BYTES};
use crate::clients::store;
use crate::form::Params;
use crate::refusal::AdminError;
use crate::state::App;
use crate::users;

/// Lists the client with exactly this `clientId`, if there is one.
pub(crate) async fn list(
    State(app): State<App>,
    _administrator: Administrator,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, AdminError> {
    let params = Params::of_query(query.as_deref())?;
    if params.exceeds("clientId", MAX_CLIENT_ID_BYTES) {
        return Err(AdminError::bad(format!("clientId must have at most {MAX_CLIENT_ID_BYTES} bytes")));
    }
    let wanted = params.get("clientId").ok_or_else(|| AdminError::bad("clientId is required"))?;
    let found = store::find(&app.core.pool, wanted).await?;
    Ok(Json(found.iter().map(shown).collect()))
}

/// Returns the account that is the subject of the client's own tokens.
pub(crate) async fn service_account(
    State(app): State<App>,
    _administrator: Administrator,
    path: PathParams,
) -> Result<Json<Value>, AdminError> {
    let unknown = || AdminError::new(StatusCode::NOT_FOUND, "Could not find client");
    let client = store::find(&app.core.pool, path.text("id")).await?.ok_or_else(unknown)?;
    if !has_service_account(&client) {
        let id = &client.id;
        return Err(AdminError::bad(format!("Service account not enabled for the client '{id}'")));
    }
    let account = users::store::service_account(&app.core.pool, &client.id).await?;
    account.map(|user| Json(rules::user(&user))).ok_or_else(AdminError::user_not_found)
}

fn has_service_account(client: &Client) -> bool {
    client.kind != ClientKind::Frontend
}

fn shown(client: &Client) -> Value {
    let confidential = has_service_account(client);
    json!({
        "id": client.id,
        "clientId": client.id,
        "enabled": client.enabled,
        "publicClient": !confidential,
        "serviceAccountsEnabled": confidential,
        "standardFlowEnabled": !confidential,
        "redirectUris": client.redirect_uris,
        "webOrigins": client.web_origins,
    })
}
