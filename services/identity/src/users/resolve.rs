//! `POST /internal/identity/users/resolve`: names that an operator wrote down become subjects with a record, so that a
//! role can be given to somebody who has not logged in yet.

use axum::extract::State;
use contract::{CorrelationId, Subject};
use service::{ApiError, Correlation, Data, RawBody};

use super::rules::{ResolveRequest, Resolved};
use crate::App;
use crate::provider::Account;
use crate::provision::provision_known;
use crate::provision::rules::{AccountState, NewUser};

/// Actor of the audit rows: no bearer stands behind these records.
const ACTOR: &str = "system:resolve";

/// Finds each name at the provider and makes its record.
pub(crate) async fn resolve(
    State(app): State<App>,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<Data<Vec<Resolved>>, ApiError> {
    let ResolveRequest(names) = body.parse()?;
    let mut resolved = Vec::with_capacity(names.len());
    for name in names {
        let kc_sub = resolve_one(&app, &id, name.as_str()).await?;
        resolved.push(Resolved { name: name.into(), kc_sub });
    }
    Ok(Data(resolved))
}

async fn resolve_one(app: &App, id: &CorrelationId, name: &str) -> Result<Option<Subject>, ApiError> {
    let Some(account) = account(app, name).await? else { return Ok(None) };
    let Some(user) = NewUser::of_account(&account) else { return Ok(None) };
    provision_known(app, ACTOR, id, &user, AccountState::of(Some(&account))).await?;
    Ok(Some(user.subject))
}

/// The subject comes first: a user can choose a login name, nobody can choose a subject.
async fn account(app: &App, name: &str) -> Result<Option<Account>, ApiError> {
    match app.provider.account(name).await? {
        Some(account) => Ok(Some(account)),
        None => Ok(app.provider.account_named(name).await?),
    }
}
