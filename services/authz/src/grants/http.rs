//! `POST /internal/authz/grants`. The edge has asked for a superadmin or an app's backend before; modules send their
//! user's bearer. Whoever asks, the rules are asked here. Beside it `POST /internal/authz/tuples/lookup`, which reads.

use axum::extract::State;
use serde::Serialize;
use service::{ApiError, Caller, Correlation, Data, Insider, RawBody};

use super::request::{GrantsRequest, LookupRequest};
use super::{admission, change, store};
use crate::App;

/// What came of a request.
#[derive(Debug, Serialize)]
pub struct GrantsAnswer {
    pub(super) status: &'static str,
    pub(super) count: usize,
    pub(super) changed: usize,
    /// Those that changed, as the audit row names them.
    pub(super) tuples: Vec<String>,
}

/// Which of the tuples of a lookup stand.
#[derive(Debug, Serialize)]
pub struct LookupAnswer {
    /// In the order of the request.
    standing: Vec<bool>,
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
        if let Some(tuples) = change::write((&app, &caller), tx, &request, &admission).await? {
            let (status, count) = (request.op.status(), request.tuples.len());
            return Ok(Data(GrantsAnswer { status, count, changed: tuples.len(), tuples }));
        }
    }
    Err(admission::catalog_moves())
}

/// Tells which tuples stand at this moment, for modules that settle what a crash left behind and have no bearer then. No
/// decision: it tells nothing that is not asked for by its whole name, and nothing is audited.
pub async fn lookup(
    State(app): State<App>,
    _insider: Insider,
    body: RawBody,
) -> Result<Data<LookupAnswer>, ApiError> {
    let LookupRequest { tuples } = body.parse()?;
    let standing = store::standing(&app.core.pool, &tuples).await?;
    Ok(Data(LookupAnswer { standing }))
}
