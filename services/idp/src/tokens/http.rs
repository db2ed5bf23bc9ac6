//! `POST /realms/{realm}/protocol/openid-connect/token`.

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use service::Correlation;

use crate::form::Params;
use crate::refusal::{OauthError, never_stored};
use crate::state::App;
use crate::tokens::{client_auth, code, credentials, refresh};

/// Parameters that are read here and may appear only once.
const ONCE: [&str; 8] = [
    "grant_type",
    "client_id",
    "client_secret",
    "code",
    "redirect_uri",
    "code_verifier",
    "refresh_token",
    "scope",
];

#[derive(Clone, Copy)]
enum GrantType {
    AuthorizationCode,
    RefreshToken,
    ClientCredentials,
}

pub(crate) async fn token(
    State(app): State<App>,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, OauthError> {
    let headers = request.headers().clone();
    let params = Params::of_body(request).await?;
    let grant = grant_type(&params)?;
    let client = client_auth::authenticate(&app, &headers, &params).await?;
    if params.repeats_any(&ONCE) {
        return Err(OauthError::invalid_request("duplicated parameter"));
    }
    let tokens = match grant {
        GrantType::AuthorizationCode => code::exchange(&app, &client, &params, &correlation).await,
        GrantType::RefreshToken => refresh::exchange(&app, &client, &params, &correlation).await,
        GrantType::ClientCredentials => credentials::exchange(&app, &client, &params).await,
    }?;
    let mut response = Json(tokens).into_response();
    never_stored(&mut response);
    Ok(response)
}

fn grant_type(params: &Params) -> Result<GrantType, OauthError> {
    match params.get("grant_type") {
        None => Err(OauthError::invalid_request("Missing form parameter: grant_type")),
        Some("authorization_code") => Ok(GrantType::AuthorizationCode),
        Some("refresh_token") => Ok(GrantType::RefreshToken),
        Some("client_credentials") => Ok(GrantType::ClientCredentials),
        Some(_) => {
            let (error, description) = ("unsupported_grant_type", "Unsupported grant_type");
            Err(OauthError::new(StatusCode::BAD_REQUEST, error, description))
        }
    }
}
