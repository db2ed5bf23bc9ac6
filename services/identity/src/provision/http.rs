//! `POST /internal/identity/provision`, which the gateway calls before it forwards a subject's first request, with that
//! request's bearer token.

use axum::extract::State;
use contract::Subject;
use contract::envelope::code;
use serde::Serialize;
use serde_json::Value;
use service::{ApiError, Caller, Correlation, Data, RawBody};

use super::rules::NewUser;
use crate::App;

/// The response: the subject, and whether the record is new.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Provisioned {
    kc_sub: Subject,
    created: bool,
}

/// Creates or updates the record of the bearer's subject. The actor is the subject itself.
pub(crate) async fn provision(
    State(app): State<App>,
    caller: Caller,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<Data<Provisioned>, ApiError> {
    let user: NewUser = body.parse()?;
    if user.subject != caller.subject {
        return Err(not_its_own());
    }
    let created = super::provision(&app, user.subject.as_str(), &id, &user).await?;
    Ok(Data(Provisioned { kc_sub: user.subject, created }))
}

fn not_its_own() -> ApiError {
    ApiError::Forbidden {
        code: code::FORBIDDEN,
        message: "a subject's record can only be created with that subject's bearer".into(),
        details: Value::Null,
    }
}
