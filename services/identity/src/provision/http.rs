//! `POST /internal/identity/provision`, which the edge calls before a subject's first request goes on, with that request's
//! bearer.

use axum::extract::State;
use contract::Subject;
use contract::envelope::code;
use serde::Serialize;
use serde_json::Value;
use service::{ApiError, Caller, Correlation, Data, RawBody};

use super::rules::NewUser;
use crate::App;

/// Whether the record is new.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Provisioned {
    kc_sub: Subject,
    created: bool,
}

/// Makes the record of the bearer's subject or brings it up to date. The subject itself is the actor: it is its own first
/// request.
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
        message: "a subject's record is made with that subject's bearer".into(),
        details: Value::Null,
    }
}
