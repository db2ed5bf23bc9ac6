//! `platform migrate`, and the step of `up` that does the same.

use contract::Settings;
use service::config::{DatabaseTls, env_name};
use service::migrate::{Login, MigrationSet, apply, bootstrap, check_passwords};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection};

use crate::check::migrations;
use crate::stop::Stop;
use crate::variables::DATABASE_URL;
use crate::{catalog, console, database, secrets};

/// Brings the database of `PLATFORM_DATABASE_URL` to the shipped state.
pub(crate) async fn migrate(settings: &Settings) -> Result<(), Stop> {
    let Some(url) = settings.raw(DATABASE_URL.name) else {
        return Err(Stop::Unfit(format!("{}: is required ({})", DATABASE_URL.name, DATABASE_URL.meaning)));
    };
    let mut reader = settings.reader();
    let tls = DatabaseTls::read(&mut reader);
    let owner = database::owner(url, &reader.finish(tls)?)?;
    let logins = logins_from(settings, &owner).await?;
    run(&owner, &logins).await?;
    let is_given = |login: &&Login| settings.raw(&password_variable(&login.key)).is_some();
    let given: Vec<Login> = logins.iter().filter(is_given).cloned().collect();
    check_passwords(&owner, &given).await?;
    console::result("the database is up to date");
    Ok(())
}

/// Roles, schemas, audit tables, then every migration.
pub(crate) async fn run(owner: &PgConnectOptions, logins: &[Login]) -> Result<(), Stop> {
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

/// A role that exists keeps its password; one that is to be made needs its variable.
async fn logins_from(settings: &Settings, owner: &PgConnectOptions) -> Result<Vec<Login>, Stop> {
    let existing = existing_roles(owner).await?;
    let mut logins = Vec::new();
    let mut missing = Vec::new();
    for part in catalog::parts() {
        let variable = password_variable(part.name);
        let given = settings.raw(&variable).map(ToOwned::to_owned);
        let known = existing.contains(&format!("platform_{}", part.name));
        let password = match given {
            Some(password) => password,
            // Never used: the role is there, and its password is not changed.
            None if known => secrets::random()?,
            None => {
                missing.push(format!(
                    "{variable}: is required, because the role platform_{} is to be made",
                    part.name
                ));
                continue;
            }
        };
        logins.push(Login { key: part.name.to_owned(), password });
    }
    if missing.is_empty() { Ok(logins) } else { Err(Stop::Unfit(missing.join("\n"))) }
}

fn password_variable(key: &str) -> String {
    format!("PLATFORM_{}_DB_PASSWORD", env_name(key))
}

async fn existing_roles(owner: &PgConnectOptions) -> Result<Vec<String>, Stop> {
    let failed = |error: sqlx::Error| {
        Stop::Unfit(format!("the database does not accept the owner's connection: {error}"))
    };
    let mut connection = owner.connect().await.map_err(failed)?;
    let query = r"SELECT rolname::text FROM pg_catalog.pg_roles WHERE rolname LIKE 'platform\_%'";
    let roles = sqlx::query_scalar(query).fetch_all(&mut connection).await.map_err(failed)?;
    connection.close().await.map_err(failed)?;
    Ok(roles)
}
