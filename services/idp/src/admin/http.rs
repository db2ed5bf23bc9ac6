//! Handlers of `/admin/realms/{realm}/…`.

use axum::Json;
use axum::extract::{RawQuery, Request, State};
use contract::id::parse_uuid;
use http::StatusCode;
use serde_json::{Value, json};
use service::{AuditEvent, AuditedTx, Correlation, PathParams};
use uuid::Uuid;

use crate::admin::caller::{Administrator, Asker};
use crate::admin::rules::{self, Window, flag, moment};
use crate::admin::store::{self, AdminEvent};
use crate::form::{Params, whole_body};
use crate::keys::rotation::{self, Wish};
use crate::refusal::AdminError;
use crate::state::App;
use crate::users;
use crate::users::store::Filter;

/// Longest user name in a search.
const MAX_SEARCH_BYTES: usize = 255;
/// Most values of one filter; more than any filter has.
const MAX_WORDS: usize = 16;

/// `GET /admin/realms/{realm}/users`.
pub(crate) async fn users(
    State(app): State<App>,
    _asker: Asker,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, AdminError> {
    let params = Params::of_query(query.as_deref())?;
    let window = Window::parse(&params).map_err(AdminError::bad)?;
    if params.exceeds("username", MAX_SEARCH_BYTES) {
        return Err(AdminError::bad(format!("username must have at most {MAX_SEARCH_BYTES} bytes")));
    }
    let username = params.get("username").map(str::to_lowercase);
    let enabled = flag(&params, "enabled").map_err(AdminError::bad)?;
    let filter = Filter {
        username: username.as_deref(),
        exact: flag(&params, "exact").map_err(AdminError::bad)?.unwrap_or(false),
        enabled,
        service_accounts: username.is_some() || enabled.is_some(),
    };
    let found = users::store::list(&app.core.pool, &filter, window.first, window.max).await?;
    Ok(Json(found.iter().map(rules::user).collect()))
}

/// `GET /admin/realms/{realm}/users/{id}`.
pub(crate) async fn user(
    State(app): State<App>,
    _asker: Asker,
    path: PathParams,
) -> Result<Json<Value>, AdminError> {
    let found = users::store::find(&app.core.pool, user_id(&path)?).await?;
    found.map(|user| Json(rules::user(&user))).ok_or_else(AdminError::user_not_found)
}

/// `PUT /admin/realms/{realm}/users/{id}`: enables a user, or disables it and ends its sessions.
pub(crate) async fn put_user(
    State(app): State<App>,
    asker: Asker,
    Correlation(correlation): Correlation,
    path: PathParams,
    request: Request,
) -> Result<StatusCode, AdminError> {
    let id = user_id(&path)?;
    let enabled = rules::enabled_of(&whole_body(request).await?).map_err(AdminError::bad)?;
    let mut tx = app.core.begin_as(asker.actor(), Some(correlation.as_str())).await?;
    let changed = users::store::set_enabled(tx.conn(), id, enabled).await?;
    if changed != Some(true) {
        tx.unchanged().await?;
        return changed.map(|_| StatusCode::NO_CONTENT).ok_or_else(AdminError::user_not_found);
    }
    let payload = json!({ "enabled": { "from": !enabled, "to": enabled } });
    let event = user_event("user.enabled_changed", id, payload);
    record(&app, tx, &asker, "UPDATE", id, &event).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `DELETE /admin/realms/{realm}/users/{id}`.
pub(crate) async fn delete_user(
    State(app): State<App>,
    asker: Asker,
    Correlation(correlation): Correlation,
    path: PathParams,
) -> Result<StatusCode, AdminError> {
    let id = user_id(&path)?;
    let mut tx = app.core.begin_as(asker.actor(), Some(correlation.as_str())).await?;
    if !users::store::remove(tx.conn(), id).await? {
        tx.unchanged().await?;
        return Err(AdminError::user_not_found());
    }
    let event = user_event("user.deleted", id, json!({}));
    record(&app, tx, &asker, "DELETE", id, &event).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /admin/realms/{realm}/keys`.
pub(crate) async fn keys(State(app): State<App>, _administrator: Administrator) -> Json<Value> {
    Json(app.keys.description())
}

/// `POST /admin/realms/{realm}/keys/rotate`: creates a new signing key now, whatever the age of the active one. In
/// Keycloak one adds a key provider (`POST …/components`), which is not implemented here.
pub(crate) async fn rotate_keys(
    State(app): State<App>,
    administrator: Administrator,
    Correlation(correlation): Correlation,
) -> Result<Json<Value>, AdminError> {
    let actor = administrator.subject.as_str();
    rotation::rotate(&app, &Wish { actor, correlation: Some(correlation.as_str()), age: None }).await?;
    Ok(Json(app.keys.description()))
}

/// `GET /admin/realms/{realm}/admin-events`.
pub(crate) async fn admin_events(
    State(app): State<App>,
    _administrator: Administrator,
    RawQuery(query): RawQuery,
) -> Result<Json<Value>, AdminError> {
    let params = Params::of_query(query.as_deref())?;
    let window = Window::parse(&params).map_err(AdminError::bad)?;
    let filter = store::Filter {
        operations: words(&params, "operationTypes")?,
        resource_types: words(&params, "resourceTypes")?,
        from: moment(&params, "dateFrom").map_err(AdminError::bad)?,
    };
    let found = store::list(&app.core.pool, &filter, window).await?;
    Ok(Json(found.iter().map(|event| shown(&app, event)).collect()))
}

/// Commits the change together with its administration event and its audit row.
pub(super) async fn record(
    app: &App,
    mut tx: AuditedTx,
    asker: &Asker,
    operation: &str,
    user: Uuid,
    event: &AuditEvent,
) -> Result<(), AdminError> {
    let admin_event = AdminEvent {
        id: Uuid::now_v7(),
        occurred_at: app.core.clock.now(),
        operation: operation.to_owned(),
        resource_type: "USER".to_owned(),
        resource_path: format!("users/{user}"),
        client_id: asker.client_id().to_owned(),
        user_id: asker.actor().to_owned(),
    };
    store::add(tx.conn(), &admin_event).await?;
    tx.commit(event).await?;
    Ok(())
}

fn shown(app: &App, event: &AdminEvent) -> Value {
    json!({
        "id": event.id,
        "time": rules::millis(event.occurred_at),
        "realmId": app.realm.name,
        "authDetails": { "realmId": app.realm.name, "clientId": event.client_id, "userId": event.user_id },
        "operationType": event.operation,
        "resourceType": event.resource_type,
        "resourcePath": event.resource_path,
    })
}

/// The audit row of a change to a user.
pub(super) fn user_event(action: &'static str, user: Uuid, payload: Value) -> AuditEvent {
    AuditEvent { company: None, action, subject: format!("user:{user}"), payload }
}

/// Parses the user id; a text that is not a UUID is an unknown user.
pub(super) fn user_id(path: &PathParams) -> Result<Uuid, AdminError> {
    parse_uuid(path.text("id")).ok_or_else(AdminError::user_not_found)
}

fn words(params: &Params, name: &str) -> Result<Vec<String>, AdminError> {
    let words: Vec<String> = params.all(name).map(ToOwned::to_owned).collect();
    if words.len() > MAX_WORDS {
        return Err(AdminError::bad(format!("at most {MAX_WORDS} values of {name}")));
    }
    Ok(words)
}
