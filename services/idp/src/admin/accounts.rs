//! Operators' changes to accounts: add one, reset its password, remove its second factor. Routes and bodies are
//! Keycloak's. A password set here is always temporary, so that only the user knows the permanent one.

use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use http::header::LOCATION;
use http::{HeaderValue, StatusCode};
use serde_json::json;
use service::{ApiError, Correlation, PathParams, name_digest};
use uuid::Uuid;

use super::caller::Asker;
use super::http::{record, user_event, user_id};
use super::rules::{self, NewUser, Refused};
use crate::form::{Params, whole_body};
use crate::letters;
use crate::passkeys;
use crate::refusal::AdminError;
use crate::second_factors;
use crate::state::App;
use crate::users;
use crate::users::queue::Line;
use crate::users::store::NewPerson;

fn refused((field, message): Refused) -> AdminError {
    AdminError::of_field(StatusCode::BAD_REQUEST, field, format!("{field}: {message}"))
}

/// `POST /admin/realms/{realm}/users`.
pub(crate) async fn add(
    State(app): State<App>,
    asker: Asker,
    Correlation(correlation): Correlation,
    request: Request,
) -> Result<Response, AdminError> {
    let asker = asker.operator()?;
    let user = rules::new_user(&whole_body(request).await?).map_err(refused)?;
    let hash = app.passwords.hash(Line::Inside, &user.password.0).await?;
    let id = Uuid::new_v4();
    let person = NewPerson {
        id,
        username: &user.username,
        email: user.email.as_deref(),
        first_name: user.first_name.as_deref(),
        last_name: user.last_name.as_deref(),
        password_hash: &hash,
        must_change_password: true,
        now: app.core.clock.now(),
    };
    let mut tx = app.core.begin_as(asker.actor(), Some(correlation.as_str())).await?;
    let Some(salt) = users::store::add_person(tx.conn(), &person).await? else {
        tx.unchanged().await?;
        return Err(taken(&app, &user).await?);
    };
    let payload = json!({ "nameDigest": name_digest(&salt, &user.username) });
    record(&app, tx, &asker, "CREATE", id, &user_event("user.created", id, payload)).await?;
    let location = format!("{}/{id}", app.realm.issuer.replacen("/realms/", "/admin/realms/", 1) + "/users");
    let location = HeaderValue::try_from(location).map_err(ApiError::internal)?;
    Ok((StatusCode::CREATED, [(LOCATION, location)]).into_response())
}

/// Finds out whether the user name or the e-mail address is taken.
async fn taken(app: &App, user: &NewUser) -> Result<AdminError, AdminError> {
    let same_name = users::store::find_login(&app.core.pool, &user.username).await?.is_some();
    let (field, message) = if same_name {
        ("username", "User exists with same username")
    } else {
        ("email", "User exists with same email")
    };
    Ok(AdminError::of_field(StatusCode::CONFLICT, field, message))
}

/// `PUT /admin/realms/{realm}/users/{id}/reset-password`: sets a temporary password and ends the user's sessions.
pub(crate) async fn reset_password(
    State(app): State<App>,
    asker: Asker,
    Correlation(correlation): Correlation,
    path: PathParams,
    request: Request,
) -> Result<StatusCode, AdminError> {
    let (asker, id) = (asker.operator()?, user_id(&path)?);
    let password = rules::temporary_password(&whole_body(request).await?).map_err(refused)?;
    let hash = app.passwords.hash(Line::Inside, &password.0).await?;
    let mut tx = app.core.begin_as(asker.actor(), Some(correlation.as_str())).await?;
    if !users::store::replace_password(tx.conn(), id, &hash, true).await? {
        tx.unchanged().await?;
        return Err(AdminError::user_not_found());
    }
    users::store::end_sessions(tx.conn(), id, None).await?;
    let event = user_event("user.password_changed", id, json!({ "reason": "reset_by_operator" }));
    record(&app, tx, &asker, "ACTION", id, &event).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `PUT /admin/realms/{realm}/users/{id}/disable-credential-types`: for a user who has lost the second factor.
pub(crate) async fn disable_credentials(
    State(app): State<App>,
    asker: Asker,
    Correlation(correlation): Correlation,
    path: PathParams,
    request: Request,
) -> Result<StatusCode, AdminError> {
    let (asker, id) = (asker.operator()?, user_id(&path)?);
    let types = rules::credential_types(&whole_body(request).await?).map_err(refused)?;
    let user = users::store::find(&app.core.pool, id).await?;
    user.ok_or_else(AdminError::user_not_found)?;
    let mut tx = app.core.begin_as(asker.actor(), Some(correlation.as_str())).await?;
    // A concurrent login waits for this lock, or has finished.
    users::store::lock_password(tx.conn(), id).await?;
    let totp = types.totp && second_factors::store::remove(tx.conn(), id).await?;
    let passkeys = if types.passkeys { passkeys::store::remove_all(tx.conn(), id).await? } else { 0 };
    if !totp && passkeys == 0 {
        tx.unchanged().await?;
        return Ok(StatusCode::NO_CONTENT);
    }
    second_factors::store::drop_spare_codes(tx.conn(), id).await?;
    users::store::end_sessions(tx.conn(), id, None).await?;
    let payload = json!({ "reason": "operator", "oneTimeCodes": totp, "passkeys": passkeys });
    let event = user_event("second_factor.removed", id, payload);
    record(&app, tx, &asker, "ACTION", id, &event).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `PUT /admin/realms/{realm}/users/{id}/execute-actions-email`: sends an e-mail with a link to choose a password.
pub(crate) async fn execute_actions_email(
    State(app): State<App>,
    asker: Asker,
    Correlation(correlation): Correlation,
    path: PathParams,
    request: Request,
) -> Result<StatusCode, AdminError> {
    let (asker, id) = (asker.operator()?, user_id(&path)?);
    let params = Params::of_query(request.uri().query())?;
    let lang = rules::lang(&params).map_err(refused)?;
    rules::actions(&whole_body(request).await?).map_err(refused)?;
    let user = users::store::find(&app.core.pool, id).await?;
    let user = user.filter(|user| user.service_client.is_none()).ok_or_else(AdminError::user_not_found)?;
    if user.email.is_none() {
        return Err(AdminError::bad("User email missing"));
    }
    if !user.enabled {
        return Err(AdminError::bad("User is disabled"));
    }
    if app.mailer.is_none() {
        return Err(AdminError::bad(
            "Failed to send execute actions email: no mail server is configured (PLATFORM_NOTIFICATION_SMTP_URL)",
        ));
    }
    let mut tx = app.core.begin_as(asker.actor(), Some(correlation.as_str())).await?;
    if !letters::http::invite(&mut tx, &app, id, lang).await? {
        tx.unchanged().await?;
        return Err(AdminError::new(StatusCode::SERVICE_UNAVAILABLE, "temporarily_unavailable"));
    }
    record(&app, tx, &asker, "ACTION", id, &user_event("user.invited", id, json!({}))).await?;
    app.letters_wake.notify_one();
    Ok(StatusCode::NO_CONTENT)
}
