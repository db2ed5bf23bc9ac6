//! The first superadmins. A start that finds no holder asks identity who the configured names are and gives them the
//! role. Until somebody holds it the service is not ready, because nobody could administer the platform; with nobody
//! named it cannot become ready and says so.
//!
//! A user name counts for an account that was there when the service started, and only until the provider has answered once:
//! where people register themselves, a name that nobody has is anybody's later. From then on only subjects are looked for,
//! which nobody chooses.

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
/// identity looks the names up at the provider.
const RESOLVE_BUDGET: Duration = Duration::from_secs(5);
/// First pause between two attempts; it doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Soon enough for somebody who waits for the platform to start.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A name of the configuration and the subject that identity found for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resolved {
    name: String,
    kc_sub: Option<String>,
}

/// How far one attempt came.
enum Progress {
    /// Somebody holds the role and no name is left.
    Done,
    /// These names are still to be found.
    Missing(Vec<String>),
}

/// Makes sure that somebody holds the role; releases `hold` then. Names that cannot be found yet are tried again for as
/// long as the process runs.
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
        let message = "nobody holds platform-superadmin: set PLATFORM_SUPERADMINS to the user names or subjects who shall";
        return Err(ServeError::Unfit(message.to_owned()));
    }
    let identity = Client::new("identity", &config.identity_url, RESOLVE_BUDGET).inside(&core.inside);
    grant_all(&core, &identity, config.superadmins.clone(), started, hold).await;
    Ok(())
}

/// `started`: in milliseconds since 1970.
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
                // The provider has answered: whoever takes one of these names from now on is not who was meant.
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
            Err(error) => tracing::warn!(%error, "the first superadmins cannot be looked up yet"),
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

/// Tuples, ledger and audit rows of all of them in one transaction.
async fn grant(core: &Core, subjects: &[String]) -> Result<(), ApiError> {
    let mut tx = core.begin_as(ACTOR, None).await?;
    store::lock_guard(tx.conn()).await?;
    for subject in subjects {
        if store::add(tx.conn(), subject).await? {
            store::write_ledger(tx.conn(), subject, Change::Granted, ACTOR, None).await?;
            tx.record(&Change::Granted.event(subject)).await?;
            tracing::info!(subject, "platform-superadmin was given at the start");
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
            Err(error) => tracing::warn!(%error, "the holders of platform-superadmin cannot be read yet"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
