//! `POST /internal/identity/provision`, which the edge calls before a subject's first request goes on.

use axum::extract::State;
use contract::Subject;
use serde::Serialize;
use service::{ApiError, Correlation, Data, RawBody};

use super::rules::NewUser;
use crate::App;

/// Whether the record is new.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Provisioned {
    kc_sub: Subject,
    created: bool,
}

/// Makes the subject's record or brings it up to date. The subject itself is the actor: it is its own first request.
pub(crate) async fn provision(
    State(app): State<App>,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<Data<Provisioned>, ApiError> {
    let user: NewUser = body.parse()?;
    let created = super::provision(&app, user.subject.as_str(), &id, &user).await?;
    Ok(Data(Provisioned { kc_sub: user.subject, created }))
}
