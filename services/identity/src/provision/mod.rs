//! The record of a subject, created at its first request; later requests keep its display data up to date.

pub(crate) mod http;
pub(crate) mod rules;
mod store;

use contract::{CorrelationId, Subject};
use serde_json::Value;
use service::{ApiError, AuditEvent, changes, pseudonymise};

use crate::App;
use rules::{AccountState, NAMES, NewUser, Profile};

/// Creates the record or, if it exists, updates its display data. Of parallel calls, the one that creates the record
/// writes the audit row and returns true.
///
/// # Errors
/// 503 if the database or, for a new record, the provider cannot answer.
pub(crate) async fn provision(
    app: &App,
    actor: &str,
    correlation: &CorrelationId,
    user: &NewUser,
) -> Result<bool, ApiError> {
    if store::exists(&app.core.pool, &user.subject).await? {
        refresh(app, actor, correlation, user).await?;
        return Ok(false);
    }
    let state = account_state(app, &user.subject).await?;
    provision_known(app, actor, correlation, user, state).await
}

/// Creates the record unless it exists, with an account state that was read just now.
///
/// # Errors
/// 503 if the database cannot answer.
pub(crate) async fn provision_known(
    app: &App,
    actor: &str,
    correlation: &CorrelationId,
    user: &NewUser,
    state: AccountState,
) -> Result<bool, ApiError> {
    let mut tx = app.core.begin_as(actor, Some(correlation.as_str())).await?;
    let Some(salt) = store::insert(tx.conn(), user, state).await? else {
        tx.unchanged().await?;
        return Ok(false);
    };
    let mut payload = changes(None, user)?;
    pseudonymise(&mut payload, &salt, &NAMES);
    payload.insert("idpEnabled".to_owned(), serde_json::json!({ "from": null, "to": state.is_enabled() }));
    tx.commit(&event(&user.subject, "user.provisioned", Value::Object(payload))).await?;
    Ok(true)
}

/// Creates the record of an account that has sent no request yet, if the provider has the account. `with_names`: false
/// leaves the display data out.
///
/// # Errors
/// 503 if the database or, for a subject without a record, the provider cannot answer.
pub(crate) async fn provision_unseen(
    app: &App,
    actor: &str,
    correlation: &CorrelationId,
    subject: &Subject,
    with_names: bool,
) -> Result<(), ApiError> {
    if store::exists(&app.core.pool, subject).await? {
        return Ok(());
    }
    let Some(account) = app.provider.account(subject.as_str()).await? else { return Ok(()) };
    let Some(mut user) = NewUser::of_account(&account).filter(|user| user.subject == *subject) else {
        return Ok(());
    };
    if !with_names {
        user.profile = Profile::default();
    }
    provision_known(app, actor, correlation, &user, AccountState::of(Some(&account))).await.map(drop)
}

/// Updates a record, but at most once in five minutes unless its display data changed, so that it does not become a hot
/// row.
async fn refresh(
    app: &App,
    actor: &str,
    correlation: &CorrelationId,
    user: &NewUser,
) -> Result<(), ApiError> {
    if !store::needs_refresh(&app.core.pool, user).await? {
        return Ok(());
    }
    let mut tx = app.core.begin_as(actor, Some(correlation.as_str())).await?;
    let Some((before, salt)) = store::lock_profile(tx.conn(), &user.subject).await? else {
        return tx.unchanged().await;
    };
    let after = before.clone().updated_by(&user.profile);
    store::touch(tx.conn(), &user.subject, &after).await?;
    let mut changed = changes(Some(&before), &after)?;
    if changed.is_empty() {
        return tx.commit_recorded().await;
    }
    pseudonymise(&mut changed, &salt, &NAMES);
    tx.commit(&event(&user.subject, "user.profile_changed", Value::Object(changed))).await
}

async fn account_state(app: &App, subject: &Subject) -> Result<AccountState, ApiError> {
    let account = app.provider.account(subject.as_str()).await?;
    Ok(AccountState::of(account.as_ref()))
}

fn event(subject: &Subject, action: &'static str, payload: Value) -> AuditEvent {
    AuditEvent { company: None, action, subject: format!("user:{subject}"), payload }
}
