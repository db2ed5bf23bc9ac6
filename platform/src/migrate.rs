//! `platform migrate`: brings a database that runs elsewhere to the shipped state.

use contract::Settings;
use service::config::{DatabaseTls, env_name};
use service::migrate::{Login, check_passwords};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection};

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
    database::migrate::apply_shipped(&owner, &logins).await?;
    let is_given = |login: &&Login| settings.raw(&password_variable(&login.key)).is_some();
    let given: Vec<Login> = logins.iter().filter(is_given).cloned().collect();
    check_passwords(&owner, &given).await?;
    console::result("the database is up to date");
    Ok(())
}

/// Returns the logins of all parts. An existing role keeps its password; a missing one needs its variable.
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
            // Never used: the role exists and keeps its password.
            None if known => secrets::random()?,
            None => {
                missing.push(format!(
                    "{variable}: is required, because the role platform_{} does not exist yet",
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
