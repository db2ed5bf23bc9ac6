//! `POST /internal/identity/users/resolve`: turns names that an operator configured into subjects with records, so that
//! a role can be granted to a user who has not logged in yet. A user name only matches an account that existed at the
//! time that the caller gives: with self-registration, anyone can take a free name later. A subject always matches,
//! because nobody can choose one.

use axum::extract::State;
use contract::{CorrelationId, Subject};
use service::{ApiError, Correlation, Data, Insider, RawBody};

use super::rules::{ResolveRequest, Resolved};
use crate::App;
use crate::provider::{Account, SERVICE_PREFIX};
use crate::provision::provision_known;
use crate::provision::rules::{AccountState, NewUser};

/// Actor of the audit rows, because these records are created without a bearer.
const ACTOR: &str = "system:resolve";

/// Looks each name up at the provider and creates its record.
pub(crate) async fn resolve(
    State(app): State<App>,
    _insider: Insider,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<Data<Vec<Resolved>>, ApiError> {
    let ResolveRequest { names, existed_at } = body.parse()?;
    let mut resolved = Vec::with_capacity(names.len());
    for name in names {
        let kc_sub = resolve_one(&app, &id, name.as_str(), existed_at).await?;
        resolved.push(Resolved { name: name.into(), kc_sub });
    }
    Ok(Data(resolved))
}

async fn resolve_one(
    app: &App,
    id: &CorrelationId,
    name: &str,
    existed_at: Option<i64>,
) -> Result<Option<Subject>, ApiError> {
    let Some(account) = account(app, name, existed_at).await? else { return Ok(None) };
    let Some(user) = NewUser::of_account(&account) else { return Ok(None) };
    provision_known(app, ACTOR, id, &user, AccountState::of(Some(&account))).await?;
    Ok(Some(user.subject))
}

/// Looks up the account. Subjects take precedence: a user can choose a login name but not a subject. A service account
/// is looked up by its client, which an operator declared, not by a name that only looks like one.
async fn account(app: &App, name: &str, existed_at: Option<i64>) -> Result<Option<Account>, ApiError> {
    if let Some(account) = app.provider.account(name).await? {
        return Ok(Some(account));
    }
    let Some(moment) = existed_at else { return Ok(None) };
    if let Some(client) = name.strip_prefix(SERVICE_PREFIX) {
        return Ok(app.provider.service_account(client).await?);
    }
    let found = app.provider.account_named(name).await?;
    Ok(found.filter(|account| account.existed_at(moment)))
}
