//! A test's own cluster, for operations that are forbidden on the shared one: stop the server, copy its files while it
//! is stopped, restore the copy, start again. Dropping it removes its folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use postgres::{Account, Launch, Server, obtain};
use sqlx::ConnectOptions;
use tokio::process::Command;
use uuid::Uuid;

use super::database::TestDatabase;
use super::entry::{environment, told};
use super::{Cluster, PASSWORD, refuse};

/// How long a server may take to stop before it is stopped immediately.
const STOP_PATIENCE: Duration = Duration::from_secs(20);

/// One server with its files.
#[derive(Debug)]
pub struct OwnCluster {
    home: PathBuf,
    launch: Launch,
    server: Option<Server>,
    cluster: &'static Cluster,
}

impl OwnCluster {
    /// Starts a new cluster.
    ///
    /// # Panics
    /// PostgreSQL cannot be started, so the test cannot run.
    pub async fn start() -> Self {
        or_refuse(Self::make().await)
    }

    /// Stops the server and waits until it has written everything.
    pub async fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop(STOP_PATIENCE).await;
        }
    }

    /// Stops the server as a crash would: it writes nothing more, and every connection breaks off.
    pub async fn crash(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.stop_at_once();
            server.ended().await;
        }
    }

    /// Starts the server on its current files and port.
    ///
    /// # Panics
    /// It does not start.
    pub async fn resume(&mut self) {
        self.server = Some(or_refuse(self.launch.start(&self.data()).await.map_err(Into::into)));
    }

    /// Starts the server on its current files but on another port, hidden from its usual clients; runs `act` on a
    /// database, and stops the server again.
    ///
    /// # Panics
    /// It does not start.
    pub async fn aside(&mut self, database: &TestDatabase, act: impl AsyncFnOnce(sqlx::PgConnection)) {
        let launch = Launch { port: 0, ..self.launch.clone() };
        let server = or_refuse(launch.start(&self.data()).await.map_err(Into::into));
        let options = database.owner_options().port(server.port);
        act(or_refuse(options.connect().await.map_err(Into::into))).await;
        server.stop(STOP_PATIENCE).await;
    }

    /// Copies the files of the stopped server.
    ///
    /// # Panics
    /// The files cannot be copied.
    pub async fn save(&self) -> PathBuf {
        let copy = self.home.join(format!("copy-{}", Uuid::new_v4().simple()));
        or_refuse(self.copy(&self.data(), &copy).await);
        copy
    }

    /// Replaces the stopped server's files with a copy.
    ///
    /// # Panics
    /// The files cannot be copied.
    pub async fn put_back(&self, copy: &Path) {
        or_refuse(std::fs::remove_dir_all(self.data()).context("removing the cluster's files"));
        or_refuse(self.copy(copy, &self.data()).await);
    }

    /// A new database with all migrations.
    ///
    /// # Panics
    /// The database cannot be made.
    pub async fn database(&self) -> TestDatabase {
        or_refuse(TestDatabase::create(self.cluster).await)
    }

    /// A new empty database; the platform's roles exist once [`Self::database`] has been called.
    ///
    /// # Panics
    /// The database cannot be made.
    pub async fn empty_database(&self) -> TestDatabase {
        or_refuse(TestDatabase::create_empty(self.cluster).await)
    }

    async fn make() -> Result<Self> {
        let account = Account::for_database()?;
        let home = std::env::temp_dir().join(format!("platform-pg-own-{}", Uuid::new_v4().simple()));
        std::fs::create_dir_all(home.join("data"))?;
        for folder in [&home, &home.join("data")] {
            account.give(folder)?;
        }
        ensure!(account.reaches(&home), "{} cannot be reached by the database's account", home.display());
        let binaries = obtain(&environment(), None, account, &told).await?;
        let on = |name, value: &str| (name, value.to_owned());
        let settings = vec![
            on("fsync", "off"),
            on("autovacuum", "off"),
            on("max_connections", "100"),
            on("shared_buffers", "32MB"),
        ];
        let mut launch = Launch { binaries, account, log: home.join("postgres.log"), port: 0, settings };
        let data = home.join("data");
        launch.initialise(&data, PASSWORD, false).await?;
        let server = launch.start(&data).await?;
        // It keeps its port when it starts again.
        launch.port = server.port;
        // Leaks a few words per test, for the life of its process.
        let cluster = Box::leak(Box::new(Cluster { port: server.port, _entry: None }));
        Ok(Self { home, launch, server: Some(server), cluster })
    }

    fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    /// Copies as the database's account, so that it owns the copy.
    async fn copy(&self, from: &Path, to: &Path) -> Result<()> {
        let done =
            self.launch.account.command(Path::new("/bin/cp")).arg("-a").arg(from).arg(to).status().await?;
        ensure!(done.success(), "{} cannot be copied", from.display());
        Ok(())
    }
}

impl Drop for OwnCluster {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            server.stop_at_once();
        }
        // A drop cannot report an error, and the system cleans its temporary folder.
        drop(std::fs::remove_dir_all(&self.home));
    }
}

/// A PostgreSQL client program (`pg_dump`, `pg_restore`) for a database, as its superuser; `None` if this machine has
/// only the server's programs.
///
/// # Panics
/// The machine has no PostgreSQL programs at all.
pub async fn client_program(name: &str, database: &TestDatabase) -> Option<Command> {
    let account = or_refuse(Account::for_database().map_err(Into::into));
    let binaries = or_refuse(obtain(&environment(), None, account, &told).await.map_err(Into::into));
    let program = binaries.program(name);
    if !program.is_file() {
        told_missing(name);
        return None;
    }
    let mut command = Command::new(program);
    command.env("PGPASSWORD", PASSWORD).args(["--host", database.host(), "--port"]);
    command.arg(database.port().to_string()).args(["--username", postgres::SUPERUSER]);
    command.args(["--dbname", database.name()]);
    Some(command)
}

#[expect(clippy::print_stderr, reason = "the user must see which checks were skipped")]
fn told_missing(name: &str) {
    eprintln!("testkit: {name} is not on this machine; skipping the checks that need it");
}

fn or_refuse<T>(outcome: Result<T>) -> T {
    match outcome {
        Ok(value) => value,
        Err(error) => refuse(&error),
    }
}
