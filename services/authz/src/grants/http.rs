//! `POST /internal/authz/grants`. The gateway has already required a superadmin or an app's backend; modules send their
//! user's bearer. All rules apply here to every caller. Also `POST /internal/authz/tuples/lookup`, which only reads.

use axum::extract::State;
use serde::Serialize;
use service::{ApiError, Caller, Correlation, Data, Insider, RawBody};

use super::request::{GrantsRequest, LookupRequest};
use super::{admission, change, store};
use crate::App;

/// The result of a request.
#[derive(Debug, Serialize)]
pub struct GrantsAnswer {
    pub(super) status: &'static str,
    pub(super) count: usize,
    pub(super) changed: usize,
    /// The tuples that changed, in the form of the audit row.
    pub(super) tuples: Vec<String>,
}

/// Which tuples of a lookup exist.
#[derive(Debug, Serialize)]
pub struct LookupAnswer {
    /// In the order of the request.
    standing: Vec<bool>,
}

/// Grants or revokes all tuples, or none. Repeating a request changes nothing.
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
        if let Some(tuples) = change::write((&app, &caller), tx, &request, &admission).await? {
            let (status, count) = (request.op.status(), request.tuples.len());
            return Ok(Data(GrantsAnswer { status, count, changed: tuples.len(), tuples }));
        }
    }
    Err(admission::catalog_moves())
}

/// Reports which tuples exist, for modules that reconcile after a crash and then have no bearer. It is not a decision:
/// it reveals only tuples that the caller names in full, and writes no audit row.
pub async fn lookup(
    State(app): State<App>,
    _insider: Insider,
    body: RawBody,
) -> Result<Data<LookupAnswer>, ApiError> {
    let LookupRequest { tuples } = body.parse()?;
    let standing = store::standing(&app.core.pool, &tuples).await?;
    Ok(Data(LookupAnswer { standing }))
}
