//! Grants the role to the first superadmins. A start that finds no holder asks identity to resolve the configured names
//! and grants them the role. The service is not ready until the role has a holder, because otherwise there is no
//! administrator; without configured names the start fails.
//!
//! A user name counts only for an account that existed when the service started, and only until the provider has
//! answered once: where users can register themselves, anyone can take an unused name later. From then on only subjects
//! are looked up, which users cannot choose.

use std::time::Duration;

use contract::envelope::DataBody;
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;
use service::client::{Call, Client, Unavailable};
use service::readiness::ReadinessHold;
use service::{ApiError, Core, ServeError};

use super::{Change, store};
use crate::Config;

/// The actor of these audit rows.
const ACTOR: &str = "system:bootstrap";
/// Time limit of one call: identity looks the names up at the provider.
const RESOLVE_BUDGET: Duration = Duration::from_secs(5);
/// First pause between two attempts; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Short enough for an operator who waits for the platform to start.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A configured name and the subject that identity found for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resolved {
    name: String,
    kc_sub: Option<String>,
}

/// The result of one attempt.
enum Progress {
    /// All names were found.
    Done,
    /// These names were not found yet.
    Missing(Vec<String>),
}

/// Ensures that the role has a holder, then releases `hold`. Names that were not found are retried for as long as the
/// process runs.
pub(crate) async fn ensure_holder(
    core: Core,
    config: &Config,
    hold: ReadinessHold,
) -> Result<(), ServeError> {
    let started = core.clock.unix_seconds().saturating_mul(1_000);
    let holders = until_answered(|| holder_count(&core)).await;
    if holders > 0 {
        hold.release();
        return Ok(());
    }
    if config.superadmins.is_empty() {
        let message = "platform-superadmin has no holder: set PLATFORM_SUPERADMINS to user names or subjects";
        return Err(ServeError::Unfit(message.to_owned()));
    }
    let identity = Client::new("identity", &config.identity_url, RESOLVE_BUDGET).inside(&core.inside);
    grant_all(&core, &identity, config.superadmins.clone(), started, hold).await;
    Ok(())
}

/// Grants the role until no name is missing. `started` is in milliseconds since the Unix epoch.
async fn grant_all(
    core: &Core,
    identity: &Client,
    mut names: Vec<String>,
    started: i64,
    hold: ReadinessHold,
) {
    let (mut hold, mut existed_at) = (Some(hold), Some(started));
    let mut pause = FIRST_PAUSE;
    loop {
        match attempt(core, identity, &names, existed_at).await {
            Ok(Progress::Done) => {
                release(&mut hold);
                return;
            }
            Ok(Progress::Missing(missing)) => {
                // The provider has answered: an account that takes one of these names later is not the one intended.
                existed_at = None;
                tracing::error!(
                    names = ?missing,
                    "PLATFORM_SUPERADMINS names accounts that did not exist when authz started: name their subjects, or start authz again once they exist"
                );
                if missing.len() < names.len() {
                    release(&mut hold);
                } else if let Some(hold) = &hold {
                    hold.stuck(format!(
                        "PLATFORM_SUPERADMINS: the identity provider has no account \"{}\": name one that exists, or its subject",
                        missing.join("\", \"")
                    ));
                }
                names = missing;
            }
            Err(error) => tracing::warn!(%error, "cannot look up the first superadmins yet"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn release(hold: &mut Option<ReadinessHold>) {
    if let Some(hold) = hold.take() {
        hold.release();
    }
}

async fn attempt(
    core: &Core,
    identity: &Client,
    names: &[String],
    existed_at: Option<i64>,
) -> Result<Progress, ApiError> {
    let resolved = resolve(identity, names, existed_at).await?;
    let subject_of = |name: &String| {
        let found = resolved.iter().find(|one| one.name == *name);
        found.and_then(|one| one.kc_sub.clone())
    };
    let found: Vec<String> = names.iter().filter_map(subject_of).collect();
    grant(core, &found).await?;
    let missing: Vec<String> = names.iter().filter(|name| subject_of(name).is_none()).cloned().collect();
    Ok(if missing.is_empty() { Progress::Done } else { Progress::Missing(missing) })
}

async fn resolve(
    identity: &Client,
    names: &[String],
    existed_at: Option<i64>,
) -> Result<Vec<Resolved>, Unavailable> {
    let question = existed_at.map_or_else(
        || json!({ "names": names }),
        |existed_at| json!({ "names": names, "existedAt": existed_at }),
    );
    let call = Call::new(Method::POST, "/internal/identity/users/resolve").json(&question);
    let answer = identity.send(call).await?;
    if answer.status != StatusCode::OK {
        return Err(identity.unavailable(format!("status {}", answer.status)));
    }
    identity.json::<DataBody<Vec<Resolved>>>(&answer).map(|body| body.data)
}

/// Writes the tuples, ledger and audit rows of all subjects in one transaction.
async fn grant(core: &Core, subjects: &[String]) -> Result<(), ApiError> {
    let mut tx = core.begin_as(ACTOR, None).await?;
    store::lock_guard(tx.conn()).await?;
    for subject in subjects {
        if store::add(tx.conn(), subject).await? {
            store::write_ledger(tx.conn(), subject, Change::Granted, ACTOR, None).await?;
            tx.record(&Change::Granted.event(subject)).await?;
            tracing::info!(subject, "granted platform-superadmin at the start");
        }
    }
    tx.commit_recorded().await
}

async fn holder_count(core: &Core) -> Result<usize, sqlx::Error> {
    let mut connection = core.pool.acquire().await?;
    store::holders(&mut connection).await.map(|holders| holders.len())
}

async fn until_answered<T, F>(ask: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, sqlx::Error>>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => tracing::warn!(%error, "cannot read the holders of platform-superadmin yet"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
