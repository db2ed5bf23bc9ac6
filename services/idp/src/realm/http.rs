//! Handlers of the realm's documents, and the check that a path names the only realm. All addresses in them have the
//! public base address, because clients reach the provider only through the gateway.

use axum::Json;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::CACHE_CONTROL;
use serde_json::{Value, json};
use service::PathParams;

use crate::refusal::AdminError;
use crate::state::{App, Realm};
use crate::tokens::scope;

/// Refuses paths that name another realm.
pub(crate) async fn only_this_realm(
    State(app): State<App>,
    path: PathParams,
    request: Request,
    next: Next,
) -> Response {
    if path.text("realm") == app.realm.name {
        next.run(request).await
    } else {
        AdminError::no_such_realm().into_response()
    }
}

/// `GET /realms/{realm}`.
pub(crate) async fn description(State(app): State<App>) -> Json<Value> {
    let Realm { name, issuer, .. } = app.realm.as_ref();
    Json(json!({
        "realm": name,
        "public_key": app.keys.public_key(),
        "token-service": format!("{issuer}/protocol/openid-connect"),
        "account-service": format!("{issuer}/account"),
        "tokens-not-before": 0,
    }))
}

/// `GET /realms/{realm}/.well-known/openid-configuration`.
pub(crate) async fn discovery(State(app): State<App>) -> Response {
    document(discovery_of(&app.realm.issuer))
}

/// `GET /realms/{realm}/protocol/openid-connect/certs`.
pub(crate) async fn certs(State(app): State<App>) -> Response {
    document(app.keys.jwks())
}

fn discovery_of(issuer: &str) -> Value {
    let route = |name: &str| format!("{issuer}/protocol/openid-connect/{name}");
    json!({
        "issuer": issuer,
        "authorization_endpoint": route("auth"),
        "token_endpoint": route("token"),
        "jwks_uri": route("certs"),
        "userinfo_endpoint": route("userinfo"),
        "end_session_endpoint": route("logout"),
        "frontchannel_logout_supported": false,
        "backchannel_logout_supported": false,
        "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query", "fragment"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        "code_challenge_methods_supported": ["S256"],
        "scopes_supported": scope::KNOWN,
        "claim_types_supported": ["normal"],
        "claims_parameter_supported": false,
        "claims_supported": [
            "aud", "sub", "iss", "auth_time", "name", "given_name", "family_name", "preferred_username", "email", "acr"
        ],
        "request_parameter_supported": false,
        "request_uri_parameter_supported": false,
        "authorization_response_iss_parameter_supported": true,
    })
}

/// Builds the response of a document, which must not be cached.
fn document(value: Value) -> Response {
    let mut response = Json(value).into_response();
    let cached = HeaderValue::from_static("no-cache, must-revalidate, no-transform, no-store");
    response.headers_mut().insert(CACHE_CONTROL, cached);
    response
}
