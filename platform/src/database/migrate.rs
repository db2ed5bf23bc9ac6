//! Checks the migrations of every part and applies them as the owner of the database.

use service::migrate::{Login, MigrationSet, apply, bootstrap};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection};

use crate::bundle::migrations;
use crate::catalog;
use crate::stop::Stop;

/// Creates roles, schemas and audit tables, then applies every migration.
pub(crate) async fn apply_shipped(owner: &PgConnectOptions, logins: &[Login]) -> Result<(), Stop> {
    fit_to_be_applied()?;
    bootstrap(owner, logins).await?;
    let parts = catalog::parts();
    let sets: Vec<MigrationSet> =
        parts.iter().map(|part| MigrationSet::shipped(part.name, part.migrations)).collect();
    apply(owner, &sets).await?;
    own_log(owner).await
}

/// Gives a database that was restored from a backup a change log of its own.
async fn own_log(owner: &PgConnectOptions) -> Result<(), Stop> {
    let failed =
        |error: sqlx::Error| Stop::Failed(format!("the database does not answer its owner: {error}"));
    let mut connection = owner.connect().await.map_err(failed)?;
    authz::operate::keep_own_log(&mut connection).await?;
    connection.close().await.map_err(failed)
}

/// Checks the numbering and checksums of all migrations and the fence of each module before any is applied, because
/// they run as the owner of every schema.
fn fit_to_be_applied() -> Result<(), Stop> {
    let mut problems = Vec::new();
    for part in catalog::parts() {
        let found = migrations::numbers(part.name, part.migrations).into_iter();
        let found = found.chain(migrations::edited(part.name, part.migrations));
        problems.extend(found.map(|problem| problem.to_string()));
    }
    for bundle in catalog::bundles() {
        let found = migrations::fence(bundle.key, bundle.migrations);
        problems.extend(found.iter().map(|finding| format!("{}/migrations/{finding}", bundle.key)));
    }
    if problems.is_empty() { Ok(()) } else { Err(Stop::Unfit(problems.join("\n"))) }
}
