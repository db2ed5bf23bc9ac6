//! `PUT /internal/identity/users/{kcSub}/lifecycle`, with the operator's credential.

use axum::extract::State;
use contract::{CorrelationId, Subject};
use serde_json::json;
use service::{ApiError, AuditEvent, AuditedTx, Correlation, Data, Operator, PathParams, RawBody};

use super::rules::{Lifecycle, LifecycleChange};
use super::store;
use crate::App;
use crate::provision::provision_unseen;
use crate::removal;
use crate::users::rules::User;

/// Moves a subject to another state. Creates the record of an account that has sent no request yet, so that it can be
/// suspended or closed beforehand. Closing asks the provider to remove the account; a worker retries until that
/// succeeds.
pub(crate) async fn change(
    State(app): State<App>,
    _operator: Operator,
    path: PathParams,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<Data<User>, ApiError> {
    let unknown = || ApiError::NotFound("user".into());
    let subject = path.subject("kcSub").ok_or_else(unknown)?;
    let change: LifecycleChange = body.parse()?;
    if change.state != Lifecycle::Active {
        let with_names = change.state != Lifecycle::Closed;
        provision_unseen(&app, &change.actor(), &id, &subject, with_names).await?;
    }
    apply(&app, &id, &subject, &change).await?;
    if change.state == Lifecycle::Closed {
        removal::try_now(&app, &subject).await?;
    }
    crate::users::store::find(&app.core.pool, &subject).await?.map(Data).ok_or_else(unknown)
}

async fn apply(
    app: &App,
    id: &CorrelationId,
    subject: &Subject,
    change: &LifecycleChange,
) -> Result<(), ApiError> {
    let mut tx = app.core.begin_as(&change.actor(), Some(id.as_str())).await?;
    let last = change.state != Lifecycle::Active && store::is_last_superadmin(tx.conn(), subject).await?;
    let from = locked(&mut tx, subject).await?;
    if (from, change.state) == (Lifecycle::Closed, Lifecycle::Closed) {
        return close_again(tx, subject).await;
    }
    from.move_to(change.state)?;
    if last && from == Lifecycle::Active {
        return Err(ApiError::conflict("the subject is the last active superadmin"));
    }
    store::update(tx.conn(), subject, change.state, &change.reason).await?;
    tx.commit(&event(subject, from, change)).await
}

/// Closes a closed subject again, which requests a removal of the account that was never requested.
async fn close_again(mut tx: AuditedTx, subject: &Subject) -> Result<(), ApiError> {
    if store::request_removal(tx.conn(), subject).await? {
        return tx.commit(&removal::event(subject, "user.account_removal_requested")).await;
    }
    if removal::is_due(tx.conn(), subject).await? {
        return tx.unchanged().await;
    }
    Lifecycle::Closed.move_to(Lifecycle::Closed)
}

async fn locked(tx: &mut AuditedTx, subject: &Subject) -> Result<Lifecycle, ApiError> {
    let word = store::lock(tx.conn(), subject).await?.ok_or(ApiError::NotFound("user".into()))?;
    Lifecycle::parse(&word).ok_or_else(|| ApiError::internal(format!("lifecycle {word} in the database")))
}

fn event(subject: &Subject, from: Lifecycle, change: &LifecycleChange) -> AuditEvent {
    AuditEvent {
        company: None,
        action: "user.lifecycle_changed",
        subject: format!("user:{subject}"),
        payload: json!({ "lifecycle": { "from": from, "to": change.state }, "reason": change.reason }),
    }
}
