//! Handler of `…/protocol/openid-connect/userinfo` (OpenID Connect Core, section 5.3; errors as RFC 6750).

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::AUTHORIZATION;
use http::{Method, StatusCode};

use crate::form::{FormProblem, Params};
use crate::refusal::{OauthError, never_stored};
use crate::state::App;
use crate::tokens::claims::{self, AccessClaims};
use crate::userinfo::store;
use crate::users;
use crate::users::rules::User;

/// `GET` and `POST /realms/{realm}/protocol/openid-connect/userinfo`.
pub(crate) async fn userinfo(State(app): State<App>, request: Request) -> Result<Response, OauthError> {
    let token = token_of(request).await.map_err(|error| error.bearer_challenged(&app.realm.name))?;
    let user = user_of(&app, &token).await.map_err(|error| error.bearer_challenged(&app.realm.name))?;
    let mut response = Json(claims::userinfo(&user)).into_response();
    never_stored(&mut response);
    Ok(response)
}

/// Reads the token from the header or from the form of a `POST`, but not from both (RFC 6750, section 2).
async fn token_of(request: Request) -> Result<String, OauthError> {
    let in_header = request.headers().contains_key(AUTHORIZATION).then(|| {
        let token = bearer::token_of(request.headers());
        token.map(ToOwned::to_owned).map_err(|_| invalid_token("Token verification failed"))
    });
    let missing = || invalid_token("Token not provided");
    if request.method() != Method::POST {
        return in_header.unwrap_or_else(|| Err(missing()));
    }
    let form = match (Params::of_body(request).await, &in_header) {
        (Err(FormProblem::ContentType), Some(_)) => Params::default(),
        (form, _) => form?,
    };
    if form.repeats_any(&["access_token"]) {
        return Err(OauthError::invalid_request("duplicated parameter"));
    }
    match (in_header, form.get("access_token")) {
        (Some(_), Some(_)) => Err(OauthError::invalid_request("the token is sent in two ways")),
        (Some(token), None) => token,
        (None, token) => token.map(ToOwned::to_owned).ok_or_else(missing),
    }
}

async fn user_of(app: &App, token: &str) -> Result<User, OauthError> {
    let now = app.core.clock.now();
    let claims: Option<AccessClaims> = app.keys.verify(token);
    let live = claims.filter(|claims| {
        claims.exp > now.unix_timestamp() && claims.iss == app.realm.issuer && claims.typ == "Bearer"
    });
    let claims = live.ok_or_else(|| invalid_token("Token verification failed"))?;
    if !claims.scope.split(' ').any(|word| word == "openid") {
        return Err(OauthError::new(StatusCode::FORBIDDEN, "insufficient_scope", "Missing openid scope"));
    }
    let user = match claims.sid {
        Some(session) => store::user_of_session(&app.core.pool, session, claims.sub, now).await?,
        None => users::store::find(&app.core.pool, claims.sub)
            .await?
            .filter(|user| user.service_client.as_deref() == Some(claims.azp.as_str())),
    };
    let user =
        user.ok_or_else(|| invalid_token("User session not found or doesn't have client attached on it"))?;
    if user.enabled { Ok(user) } else { Err(invalid_token("User disabled")) }
}

fn invalid_token(description: &'static str) -> OauthError {
    OauthError::new(StatusCode::UNAUTHORIZED, "invalid_token", description)
}
