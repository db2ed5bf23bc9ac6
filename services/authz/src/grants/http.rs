//! `POST /internal/authz/grants`. The edge has asked for a superadmin or an app's backend before; modules send their
//! user's bearer. Whoever asks, the rules are asked here.

use axum::extract::State;
use serde::Serialize;
use service::{ApiError, Caller, Correlation, Data, RawBody};

use super::request::GrantsRequest;
use super::{admission, change};
use crate::App;

/// What came of a request.
#[derive(Debug, Serialize)]
pub struct GrantsAnswer {
    status: &'static str,
    count: usize,
    changed: usize,
}

/// Gives or takes all tuples, or none. Repeating it changes nothing and answers the same.
pub async fn change(
    State(app): State<App>,
    caller: Caller,
    Correlation(correlation): Correlation,
    body: RawBody,
) -> Result<Data<GrantsAnswer>, ApiError> {
    let request: GrantsRequest = body.parse()?;
    let correlation = request.correlation.as_deref().unwrap_or_else(|| correlation.as_str());
    for _ in 0..admission::ATTEMPTS {
        let admission = admission::admit(&app, &caller, &request).await?;
        let tx = app.core.begin_as(caller.subject.as_str(), Some(correlation)).await?;
        if let Some(changed) = change::write(tx, &request, &admission).await? {
            let (status, count) = (request.op.status(), request.tuples.len());
            return Ok(Data(GrantsAnswer { status, count, changed }));
        }
    }
    Err(admission::catalog_moves())
}
