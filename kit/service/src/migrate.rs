//! Brings a database to the shipped state: roles, schemas and audit tables (`bootstrap`), then the migrations of every
//! service and module (`apply`). `platform up`, `platform migrate` and the test harness use this; services never do,
//! because they log in as roles that own nothing.
//!
//! Both steps are idempotent, and each holds one advisory lock on a connection of its own, so that several runs may
//! start at once.

use std::borrow::Cow;
use std::path::Path;

use sqlx::migrate::{MigrateError as RunError, Migration, Migrator};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};

use crate::config::env_name;
use crate::db::{LOCK_NOT_HAD, WRONG_PASSWORD, has_state};
use crate::scram::{self, ScramError};

/// Creates one login; `{key}` and `{password}` are filled in, the latter with a SCRAM verifier.
const ROLES: &str = include_str!("../../../migrations/0000_bootstrap/roles.sql");
/// Creates and fences one schema; `{key}` is filled in.
const SCHEMAS: &str = include_str!("../../../migrations/0000_bootstrap/service.sql");
/// Key of the advisory locks: a number that nothing else in the database uses ("platform" in ASCII).
const LOCK: i64 = 0x706c_6174_666f_726d;
/// How long a run waits for another run, and a statement for a table in use.
const LOCK_TIMEOUT: &str = "30s";
/// Longest key in bytes: roles are named `platform_<key>`, and PostgreSQL truncates names at 63 bytes.
const MAX_KEY_BYTES: usize = 40;

/// The login of one service or module.
#[derive(Clone, Debug)]
pub struct Login {
    /// `org`, `timesheet`, …: names the role `platform_<key>` and the schema `<key>`.
    pub key: String,
    /// Its password, set when the role is created; only [`set_passwords`] changes it later.
    pub password: String,
}

/// The migrations of one schema.
#[derive(Clone, Debug)]
pub struct MigrationSet {
    /// The schema; its version table is `<key>.schema_version`.
    pub key: String,
    /// The migrations.
    pub migrations: Cow<'static, [Migration]>,
}

impl MigrationSet {
    /// Migrations compiled into the program.
    #[must_use]
    pub fn shipped(key: &str, migrator: &'static Migrator) -> Self {
        Self { key: key.to_owned(), migrations: Cow::Borrowed(&migrator.migrations) }
    }

    /// Reads migrations from a folder.
    ///
    /// # Errors
    /// The folder or one of its files cannot be read, or a file is not named like a migration.
    pub async fn from_folder(key: &str, folder: &Path) -> Result<Self, MigrateError> {
        let failed = |source| MigrateError::Migration { key: key.to_owned(), source };
        let read = Migrator::new(folder).await.map_err(failed)?;
        Ok(Self { key: key.to_owned(), migrations: read.migrations })
    }

    fn migrator(&self) -> Migrator {
        let mut migrator =
            Migrator { migrations: self.migrations.clone(), locking: false, ..Migrator::DEFAULT };
        migrator.dangerous_set_table_name(format!("{}.schema_version", self.key));
        migrator
    }
}

/// Why a database is not in the shipped state.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The owner's connection failed.
    #[error("the database does not accept the owner's connection: {0}")]
    Connect(#[source] sqlx::Error),
    /// Another run holds the lock.
    #[error(
        "another migration run holds the lock for {LOCK_TIMEOUT} already: wait until it has ended, then try again"
    )]
    Locked,
    /// A key that cannot name a schema.
    #[error(
        "\"{0}\" cannot name a schema: a lower-case letter, then letters, digits and _, at most {MAX_KEY_BYTES}"
    )]
    BadKey(String),
    /// A password that cannot be used to log in.
    #[error("the database password of {0} is empty or holds control characters: choose another one")]
    BadPassword(String),
    /// An existing role has another password.
    #[error(
        "the role platform_{0} has another password in this database: set PLATFORM_{name}_DB_PASSWORD to the role's, or the role's to it (ALTER ROLE platform_{0} PASSWORD …)",
        name = env_name(.0)
    )]
    OtherPassword(String),
    /// No salt could be generated for a password's verifier.
    #[error("the system's random source does not answer")]
    NoRandom,
    /// The roles or schemas could not be created.
    #[error("roles, schemas and audit tables could not be created: {0}")]
    Bootstrap(#[source] sqlx::Error),
    /// An applied migration differs from the shipped one.
    #[error(
        "migration {version} of {key} was applied to this database with another content: a shipped migration never changes, so run the version of the platform that made this database, or restore the file"
    )]
    Changed {
        /// The schema.
        key: String,
        /// The migration.
        version: i64,
    },
    /// An applied migration is not shipped.
    #[error(
        "this database has migration {version} of {key}, which this version of the platform does not know: it was migrated by a newer version, so run that one"
    )]
    Newer {
        /// The schema.
        key: String,
        /// The migration.
        version: i64,
    },
    /// A migration could not be read or failed.
    #[error("migrations of {key}: {source}")]
    Migration {
        /// The schema.
        key: String,
        /// What happened.
        source: RunError,
    },
}

/// Creates the roles, schemas and audit tables of all `logins`. `owner` names the platform's database and a login that
/// may create roles and schemas.
///
/// # Errors
/// No connection, a lock timeout, a bad key or password, or missing privileges.
pub async fn bootstrap(owner: &PgConnectOptions, logins: &[Login]) -> Result<(), MigrateError> {
    let roles = logins.iter().map(role_statements).collect::<Result<String, _>>()?;
    let schemas: String = logins.iter().map(|login| SCHEMAS.replace("{key}", &login.key)).collect();
    run_locked(&owner.clone().database("postgres"), roles).await?;
    run_locked(owner, schemas).await
}

/// Sets the passwords of existing roles. Only for a cluster that serves one platform: elsewhere another database may
/// use the roles.
///
/// # Errors
/// No connection, a bad key or password, or missing privileges.
pub async fn set_passwords(owner: &PgConnectOptions, logins: &[Login]) -> Result<(), MigrateError> {
    let change = |login: &Login| {
        Ok(format!("ALTER ROLE platform_{} PASSWORD '{}';\n", login.key, verifier_of(login)?))
    };
    let statements = logins.iter().map(change).collect::<Result<String, MigrateError>>()?;
    run_locked(&owner.clone().database("postgres"), statements).await
}

/// Checks that each role has its login's password.
///
/// # Errors
/// The first role that has another password. A role that the server rejects from here for another reason is skipped,
/// because the services may connect from elsewhere.
pub async fn check_passwords(owner: &PgConnectOptions, logins: &[Login]) -> Result<(), MigrateError> {
    for login in logins {
        check_key(&login.key)?;
        let role = owner.clone().username(&format!("platform_{}", login.key)).password(&login.password);
        match role.connect().await {
            Ok(connection) => connection.close().await.map_err(MigrateError::Connect)?,
            Err(error) if has_state(&error, WRONG_PASSWORD) => {
                return Err(MigrateError::OtherPassword(login.key.clone()));
            }
            Err(error) => tracing::debug!(%error, role = login.key, "a role's login was rejected from here"),
        }
    }
    Ok(())
}

/// Applies the missing migrations of every set, in order, as the role `platform_owner`.
///
/// # Errors
/// No connection, a lock timeout, a shipped file that changed, a database of a newer version, or a migration that
/// fails; the sets before it stay applied.
pub async fn apply(owner: &PgConnectOptions, sets: &[MigrationSet]) -> Result<(), MigrateError> {
    let mut connection = connect(owner).await?;
    for set in sets {
        check_key(&set.key)?;
        become_owner(&mut connection).await?;
        let run = set.migrator().run_direct(None, &mut connection, false).await;
        run.map_err(|error| explain(&set.key, error))?;
    }
    connection.close().await.map_err(MigrateError::Connect)
}

async fn run_locked(owner: &PgConnectOptions, statements: String) -> Result<(), MigrateError> {
    let mut connection = connect(owner).await?;
    // Not a prepared query: it holds several statements, and `role_statements` has validated the keys and verifiers.
    let run = sqlx::raw_sql(AssertSqlSafe(statements)).execute(&mut connection).await;
    run.map_err(MigrateError::Bootstrap)?;
    connection.close().await.map_err(MigrateError::Connect)
}

/// A dedicated connection that holds the lock until it closes.
async fn connect(owner: &PgConnectOptions) -> Result<PgConnection, MigrateError> {
    let quiet = owner.clone().application_name("platform-migrate").options([
        ("lock_timeout", LOCK_TIMEOUT),
        ("search_path", ""),
        ("client_min_messages", "warning"),
    ]);
    // Slow statements are logged in full, and the one that creates a role holds its password's verifier.
    let quiet = quiet.disable_statement_logging();
    let mut connection = quiet.connect().await.map_err(MigrateError::Connect)?;
    let lock =
        sqlx::query("SELECT pg_catalog.pg_advisory_lock($1)").bind(LOCK).execute(&mut connection).await;
    lock.map_err(|error| {
        if has_state(&error, LOCK_NOT_HAD) { MigrateError::Locked } else { MigrateError::Connect(error) }
    })?;
    Ok(connection)
}

async fn become_owner(connection: &mut PgConnection) -> Result<(), MigrateError> {
    let set = sqlx::query("SET ROLE platform_owner").execute(connection).await;
    set.map(|_| ()).map_err(MigrateError::Bootstrap)
}

fn role_statements(login: &Login) -> Result<String, MigrateError> {
    let verifier = verifier_of(login)?;
    Ok(ROLES.replace("{key}", &login.key).replace("{password}", &verifier))
}

/// The verifier of a login whose key can name a schema. It holds no character that could end a statement.
fn verifier_of(login: &Login) -> Result<String, MigrateError> {
    check_key(&login.key)?;
    scram::verifier(&login.password).map_err(|error| match error {
        ScramError::Password => MigrateError::BadPassword(login.key.clone()),
        ScramError::Random => MigrateError::NoRandom,
    })
}

fn check_key(key: &str) -> Result<(), MigrateError> {
    let starts = key.starts_with(|first: char| first.is_ascii_lowercase());
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if starts && key.len() <= MAX_KEY_BYTES && key.bytes().all(plain) {
        Ok(())
    } else {
        Err(MigrateError::BadKey(key.to_owned()))
    }
}

fn explain(key: &str, error: RunError) -> MigrateError {
    let key = key.to_owned();
    if let RunError::VersionMismatch(version) = error {
        MigrateError::Changed { key, version }
    } else if let RunError::VersionMissing(version) = error {
        MigrateError::Newer { key, version }
    } else {
        MigrateError::Migration { key, source: error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(key: &str, password: &str) -> Login {
        Login { key: key.to_owned(), password: password.to_owned() }
    }

    #[test]
    fn a_statement_holds_a_verifier_and_no_password() {
        let password = "it's {key} \\ $1 $bootstrap$; DROP ROLE platform_owner";
        let text = role_statements(&login("org", password)).expect("a fine password");
        assert!(text.contains("CREATE ROLE platform_org LOGIN PASSWORD 'SCRAM-SHA-256$4096:"), "{text}");
        assert!(!text.contains("it's") && !text.contains("DROP ROLE"), "{text}");
        assert_eq!(text.matches("$bootstrap$").count(), 2, "the block's beginning and end");
    }

    #[test]
    fn a_password_that_nobody_can_log_in_with_is_refused() {
        for bad in ["", "a\0b", "a\nb"] {
            let refused = role_statements(&login("org", bad));
            assert!(matches!(refused, Err(MigrateError::BadPassword(_))), "{bad:?}");
        }
    }

    #[test]
    fn only_a_plain_name_becomes_a_schema() {
        for bad in ["", "Org", "a-b", "1a", "a;b", "a b", &"a".repeat(41)] {
            assert!(matches!(check_key(bad), Err(MigrateError::BadKey(_))), "{bad:?}");
        }
        assert!(check_key("timesheet").is_ok());
    }
}
