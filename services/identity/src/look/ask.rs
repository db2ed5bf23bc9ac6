//! Asking the provider. The lists leave service accounts out, and a page can shift under an account while it is read; so
//! whatever a list cannot settle is asked about by its id.

use std::collections::HashMap;

use service::ApiError;
use time::OffsetDateTime;

use super::findings::{Findings, Known};
use super::{Scope, store};
use crate::App;
use crate::provision::rules::AccountState;

/// Everything that this look can say about the subjects that are known here.
pub(super) async fn ask(app: &App, scope: Scope) -> Result<Findings, ApiError> {
    match scope {
        Scope::Full => ask_all(app).await,
        Scope::Quick { since } => ask_disabled(app, since).await,
    }
}

/// All accounts: a known subject that is not listed is asked about, unless it is long gone.
async fn ask_all(app: &App) -> Result<Findings, ApiError> {
    let known = store::known(&app.core.pool).await?;
    let listed: HashMap<String, bool> =
        app.provider.accounts().await?.into_iter().map(|account| (account.id, account.enabled)).collect();
    let mut findings = Findings::default();
    let mut unsettled = Vec::new();
    for Known { subject, is_service, state } in known {
        match listed.get(&subject) {
            Some(true) => findings.note(subject, AccountState::Enabled),
            Some(false) => findings.note(subject, AccountState::Disabled),
            None if state.is_gone() && !is_service => {}
            None => unsettled.push(subject),
        }
    }
    ask_each(app, unsettled, &mut findings).await?;
    Ok(findings)
}

/// The disabled accounts and the deletions; then, by id, the service accounts and those that were disabled and are not
/// listed any more.
async fn ask_disabled(app: &App, since: OffsetDateTime) -> Result<Findings, ApiError> {
    let watched = store::watched(&app.core.pool).await?;
    let mut findings = Findings::default();
    for account in app.provider.disabled_accounts().await? {
        findings.note(account.id, AccountState::Disabled);
    }
    for id in app.provider.deleted_since(unix_millis(since)).await? {
        findings.note(id, AccountState::Gone);
    }
    let unsettled = watched.into_iter().filter(|subject| !findings.has(subject)).collect();
    ask_each(app, unsettled, &mut findings).await?;
    Ok(findings)
}

async fn ask_each(app: &App, subjects: Vec<String>, findings: &mut Findings) -> Result<(), ApiError> {
    for subject in subjects {
        let account = app.provider.account(&subject).await?;
        findings.note(subject, AccountState::of(account.as_ref()));
    }
    Ok(())
}

fn unix_millis(moment: OffsetDateTime) -> i64 {
    moment.unix_timestamp().saturating_mul(1_000)
}
