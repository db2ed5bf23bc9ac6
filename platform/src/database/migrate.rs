//! Migrations of every part, checked and applied by the owner of the database.

use service::migrate::{Login, MigrationSet, apply, bootstrap};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection};

use crate::bundle::migrations;
use crate::catalog;
use crate::stop::Stop;

/// Roles, schemas, audit tables, then every migration.
pub(crate) async fn apply_shipped(owner: &PgConnectOptions, logins: &[Login]) -> Result<(), Stop> {
    fit_to_be_applied()?;
    bootstrap(owner, logins).await?;
    let parts = catalog::parts();
    let sets: Vec<MigrationSet> =
        parts.iter().map(|part| MigrationSet::shipped(part.name, part.migrations)).collect();
    apply(owner, &sets).await?;
    own_log(owner).await
}

/// A database that came from a backup has the change log of the one that it was saved from.
async fn own_log(owner: &PgConnectOptions) -> Result<(), Stop> {
    let failed =
        |error: sqlx::Error| Stop::Failed(format!("the database does not answer its owner: {error}"));
    let mut connection = owner.connect().await.map_err(failed)?;
    authz::operate::keep_own_log(&mut connection).await?;
    connection.close().await.map_err(failed)
}

/// The owner of every schema runs them, so what ships is looked at before anything is done: numbers and checksums of all,
/// the fence of each module.
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
