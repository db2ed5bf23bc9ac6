//! The requests of a quick look. The provider's lists omit service accounts, so an account that a list cannot settle is
//! requested by its id.

use std::collections::HashSet;

use service::ApiError;
use time::OffsetDateTime;

use super::findings::Findings;
use super::store;
use crate::App;
use crate::provision::rules::AccountState;

/// Most accounts that were disabled and are no longer listed, of which one quick look asks.
const MOST_UNLISTED: usize = 1_000;

/// Requests the disabled accounts and the deletions, then by id the service accounts and those that were disabled but
/// are no longer listed. Returns also whether more of the latter are left: they stay disabled until a later look.
pub(super) async fn ask_disabled(app: &App, since: OffsetDateTime) -> Result<(Findings, bool), ApiError> {
    let watched = store::watched(&app.core.pool).await?;
    let recorded: HashSet<&str> =
        watched.iter().filter(|known| known.is_disabled).map(|known| known.subject.as_str()).collect();
    let (mut findings, mut unchanged) = (Findings::default(), HashSet::new());
    for account in app.provider.disabled_accounts().await? {
        if recorded.contains(account.id.as_str()) {
            unchanged.insert(account.id);
        } else {
            findings.note(account.id, AccountState::Disabled);
        }
    }
    for id in app.provider.deleted_since(unix_millis(since)).await? {
        findings.note(id, AccountState::Gone);
    }
    let is_settled = |subject: &str| findings.has(subject) || unchanged.contains(subject);
    let unsettled = watched.into_iter().filter(|known| !is_settled(&known.subject));
    let (services, mut unlisted): (Vec<_>, Vec<_>) = unsettled.partition(|known| known.is_service);
    let any_left = unlisted.len() > MOST_UNLISTED;
    unlisted.truncate(MOST_UNLISTED);
    let subjects = services.into_iter().chain(unlisted).map(|known| known.subject).collect();
    ask_each(app, subjects, &mut findings).await?;
    Ok((findings, any_left))
}

/// Requests each of the subjects by its id.
pub(super) async fn ask_each(
    app: &App,
    subjects: Vec<String>,
    findings: &mut Findings,
) -> Result<(), ApiError> {
    for subject in subjects {
        let account = app.provider.account(&subject).await?;
        findings.note(subject, AccountState::of(account.as_ref()));
    }
    Ok(())
}

fn unix_millis(moment: OffsetDateTime) -> i64 {
    moment.unix_timestamp().saturating_mul(1_000)
}
