//! One PostgreSQL cluster for all test processes of a workspace, and a fresh database for each test.
//!
//! The cluster lives in `<target>/pg-test`. The first test process starts it with an empty data folder, the others
//! share it, and a watcher process stops it some time after the last one has exited. The kernel closes the handles of a
//! killed process, so nothing is left over. Databases are copies of a template that holds all migrations, and are never
//! dropped individually: the next cluster starts empty.

mod database;
mod entry;
mod own;
mod template;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use postgres::SUPERUSER;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use tokio::sync::OnceCell;

pub use database::TestDatabase;
pub use own::{OwnCluster, client_program};

/// Password of every login of the test cluster, which is reachable only from this machine and holds no real data.
pub const PASSWORD: &str = "platform-test";

/// A new database with all migrations, in the cluster that all test processes share.
///
/// # Panics
/// PostgreSQL cannot be started, so the test cannot run.
pub async fn database() -> TestDatabase {
    match TestDatabase::create(cluster().await).await {
        Ok(database) => database,
        Err(error) => refuse(&error),
    }
}

/// A new database without roles, schemas or migrations, for tests of the migration runner itself.
///
/// # Panics
/// PostgreSQL cannot be started, so the test cannot run.
pub async fn empty_database() -> TestDatabase {
    match TestDatabase::create_empty(cluster().await).await {
        Ok(database) => database,
        Err(error) => refuse(&error),
    }
}

/// This process's use of the cluster: entered once, left when the process ends.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) port: u16,
    /// The kernel closes this when the process ends, for which the watcher waits. A test's own cluster has no watcher.
    _entry: Option<entry::Held>,
}

impl Cluster {
    /// The superuser's connection options for one database.
    pub(crate) fn superuser(&self, database: &str) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .host("127.0.0.1")
            .port(self.port)
            .username(SUPERUSER)
            .password(PASSWORD)
            .database(database)
            .ssl_mode(PgSslMode::Disable)
    }
}

async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    match CLUSTER.get_or_try_init(enter).await {
        Ok(cluster) => cluster,
        Err(error) => refuse(&error),
    }
}

async fn enter() -> Result<Cluster> {
    let folder = target_folder().join("pg-test");
    let (port, held) = entry::enter(&folder).await.context("starting the test cluster")?;
    Ok(Cluster { port, _entry: Some(held) })
}

/// The root of the workspace in which this crate was built.
pub(crate) fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_owned()
}

fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

#[expect(clippy::panic, reason = "a test without a database has failed, and this says why")]
fn refuse(error: &anyhow::Error) -> ! {
    panic!("no test database: {error:#}")
}
