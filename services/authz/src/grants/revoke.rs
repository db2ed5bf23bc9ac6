//! `POST /internal/authz/tuples/revoke`: a module uses the services' credential to remove tuples of users that its own
//! rows no longer justify, for example after a row was linked to another login or got another owner. It only removes,
//! and only users' tuples on objects of the module's own types or on the module itself, never an anchor or a default
//! tuple. There is no bearer, so the audit row names the module and the reason.
//!
//! All services share one credential, so `moduleKey` is the caller's claim: it protects another module's tuples from
//! mistakes but proves nothing.

use std::collections::BTreeSet;

use axum::extract::State;
use contract::decision::MAX_NAME;
use contract::fields::{Fields, FromBody, Text};
use contract::fragment;
use contract::id::CompanyId;
use serde_json::json;
use service::{ApiError, AuditEvent, AuditedTx, Correlation, Data, OwnCall, RawBody};

use super::admission::{ATTEMPTS, catalog_moves, denied};
use super::change;
use super::http::GrantsAnswer;
use super::request::{self, Op, Tuple};
use super::store;
use super::types::{self, Grantee, Sorted, problem};
use crate::App;
use crate::engine::{Models, Unanswered};

/// Maximum length of a reason: a word such as `MEMBER_RELINKED`, or one sentence.
const MAX_REASON: usize = 200;

/// The body of a revoke request.
struct RevokeRequest {
    /// The module that owns the tuples' types.
    module: String,
    company: CompanyId,
    /// Recorded in the audit row.
    reason: String,
    /// As in a grants request.
    correlation: Option<String>,
    tuples: Vec<Tuple>,
}

impl FromBody for RevokeRequest {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let module = fields.text("moduleKey", Text::line(fragment::MAX_NAME));
        let company = fields.uuid("companyId");
        let reason = fields.text("reason", Text::line(MAX_REASON));
        let correlation = fields.optional_text("correlationId", Text::line(MAX_NAME));
        let tuples = request::tuples(fields);
        Some(Self {
            module: module?,
            company: company?,
            reason: reason?,
            correlation: correlation?,
            tuples: tuples?,
        })
    }
}

/// Removes all tuples, or none. Repeating a request changes nothing.
///
/// # Errors
/// 401 without the services' credential; 422 for anything but a user's tuple of the company; 403 for another module's
/// or an app's type; 503 when the catalog cannot be read.
pub async fn revoke(
    State(app): State<App>,
    _own: OwnCall,
    Correlation(correlation): Correlation,
    body: RawBody,
) -> Result<Data<GrantsAnswer>, ApiError> {
    let request: RevokeRequest = body.parse()?;
    if !store::apps_among(&app.core.pool, &BTreeSet::from([request.module.clone()])).await?.is_empty() {
        return Err(denied("only the app may change its tuples", "TYPE_OF_AN_APP", &request.module));
    }
    let actor = format!("service:{}", request.module);
    let correlation = request.correlation.as_deref().unwrap_or_else(|| correlation.as_str());
    for _ in 0..ATTEMPTS {
        let model = Models::default().current(&app.core.pool).await.map_err(|why| unread(&why))?;
        let sorted = types::sort_all(&model, Op::Revoke, &request.tuples);
        let sorted = sorted.map_err(|problems| ApiError::unprocessable(&problems))?;
        only_own(&request.module, &sorted)?;
        only_users(&sorted)?;
        let mut tx = app.core.begin_as(&actor, Some(correlation)).await?;
        if !change::lock(&mut tx, request.company, &request.tuples, &sorted, model.revision()).await? {
            tx.unchanged().await?;
            continue;
        }
        let tuples = take(tx, &request).await?;
        let (status, count) = (Op::Revoke.status(), request.tuples.len());
        return Ok(Data(GrantsAnswer { status, count, changed: tuples.len(), tuples }));
    }
    Err(catalog_moves())
}

/// Removes the tuples and commits with an audit row, unless nothing changed.
async fn take(mut tx: AuditedTx, request: &RevokeRequest) -> Result<Vec<String>, ApiError> {
    let removed = store::remove(tx.conn(), &request.tuples).await?;
    if removed.is_empty() {
        tx.unchanged().await?;
        return Ok(removed);
    }
    let event = AuditEvent {
        company: Some(request.company),
        action: "tuples.revoked",
        subject: format!("company:{}", request.company),
        payload: json!({ "tuples": removed, "requested": request.tuples.len(), "reason": request.reason }),
    };
    tx.commit(&event).await?;
    Ok(removed)
}

fn only_own(module: &str, sorted: &[Sorted]) -> Result<(), ApiError> {
    if sorted.iter().all(|one| one.module == module) {
        return Ok(());
    }
    Err(denied("a module may revoke tuples of its own types only", "TYPE_OF_ANOTHER_MODULE", module))
}

fn only_users(sorted: &[Sorted]) -> Result<(), ApiError> {
    let others = sorted.iter().enumerate().filter(|(_, one)| one.grantee != Grantee::User);
    let problems: Vec<_> = others.map(|(index, _)| problem(index, "subjectType", "enum", "user")).collect();
    if problems.is_empty() { Ok(()) } else { Err(ApiError::unprocessable(&problems)) }
}

fn unread(why: &Unanswered) -> ApiError {
    tracing::warn!(%why, "the catalog cannot be read");
    ApiError::unavailable(why.dependency)
}
