//! The database of `up`: an embedded server, or the one that `PLATFORM_DATABASE_URL` names.

mod memory;
pub(crate) mod migrate;

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use contract::Settings;
use postgres::{Account, Binaries, ClusterDirectory, Launch, SUPERUSER, Server, obtain, socket_host};
use service::config::DatabaseTls;
use service::db::secured;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgSslMode};
use sqlx::{ConnectOptions, Connection};

use crate::console;
use crate::data_dir::{DataDir, check_space};
use crate::fetching::Fetching;
use crate::secrets::Secrets;
use crate::stop::Stop;
use crate::variables::DATABASE_URL;

/// Where the database's files go when its account cannot reach the data directory.
const ELSEWHERE: &str = "/var/lib/platform";
/// Name of the embedded database.
const NAME: &str = "platform";
/// Least connection limit of the embedded server: twice the need of ten services with five and two connections each and of
/// an operator, and room for tools.
const MIN_CONNECTIONS: u32 = 200;
/// How long the embedded server may take to end its sessions and write its data.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// The platform's database.
#[derive(Debug)]
pub(crate) struct Database {
    /// The owner's login to the platform's database.
    pub(crate) owner: PgConnectOptions,
    /// The embedded server; `None` for an external database.
    server: Option<Server>,
}

impl Database {
    /// The database of `PLATFORM_DATABASE_URL`.
    pub(crate) fn connect(url: &str, tls: &DatabaseTls) -> Result<Self, Stop> {
        let owner = owner(url, tls)?;
        Ok(Self { owner, server: None })
    }

    /// Whether the database is embedded.
    pub(crate) const fn is_embedded(&self) -> bool {
        self.server.is_some()
    }

    /// Creates, starts or adopts the embedded server on `port`, or on a free one if that is 0. Unless it was adopted, it
    /// allows `connections`, or 200 if that is more.
    pub(crate) async fn embedded(
        binaries: Binaries,
        data_dir: &DataDir,
        (port, connections): (u16, u32),
        min_free: u64,
    ) -> Result<Self, Stop> {
        let place = place(&data_dir.path);
        for folder in place.abandoned() {
            console::say(&format!(
                "platform: note: no data directory refers to {}: unless you moved one, remove that folder and the \
                 .origin file beside it",
                folder.display()
            ));
        }
        let finished = place.finished()?;
        let password = superuser_password(&Secrets::in_dir(&data_dir.path), finished.as_deref())?;
        let launch = launch(binaries, data_dir, port, connections)?;
        let folder = match finished {
            Some(folder) => folder,
            None => make(&place, &launch, &password).await?,
        };
        check_space(&folder, min_free)?;
        loop {
            let mut server = start_or_adopt(&launch, &folder).await?;
            let owner = superuser(server.port, &password);
            match create(owner.clone(), &folder).await {
                Ok(()) => return Ok(Self { owner: owner.database(NAME), server: Some(server) }),
                Err(stop) => {
                    // A server that was killed together with the previous `up` may still have been exiting: try again.
                    if !server.was_dying().await {
                        server.stop(STOP_PATIENCE).await;
                        return Err(stop);
                    }
                }
            }
        }
    }

    /// Refuses a server that allows fewer connections than are `needed`.
    pub(crate) async fn check_connections(&self, needed: u32) -> Result<(), Stop> {
        let mut connection = self.owner.connect().await.map_err(|error| unreachable(&error))?;
        let query = "SELECT pg_catalog.current_setting('max_connections')::bigint";
        let allowed: i64 = sqlx::query_scalar(query)
            .fetch_one(&mut connection)
            .await
            .map_err(|error| unreachable(&error))?;
        connection.close().await.map_err(|error| unreachable(&error))?;
        if allowed >= i64::from(needed) {
            return Ok(());
        }
        let remedy = if self.is_embedded() {
            // `up` stops it now, and the next start sets the limit.
            "it was started with a smaller PLATFORM_DB_POOL_MAX; start again"
        } else {
            "raise max_connections, or lower PLATFORM_DB_POOL_MAX and PLATFORM_DB_WORKER_POOL_MAX"
        };
        Err(Stop::Unfit(format!(
            "the database allows {allowed} connections and the platform needs {needed}: {remedy}"
        )))
    }

    /// Waits until the embedded server ends by itself; never returns for an external database.
    pub(crate) async fn ended(&mut self) {
        match &mut self.server {
            Some(server) => server.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Stops the embedded server after it has written its data.
    pub(crate) async fn stop(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop(STOP_PATIENCE).await;
        }
    }

    /// Stops the embedded server at once; the next start recovers.
    pub(crate) fn stop_at_once(&mut self) {
        if let Some(server) = self.server.take() {
            server.stop_at_once();
        }
    }
}

/// Removes a scratch data directory and its stopped database, wherever the database is stored.
pub(crate) fn wipe(data_dir: &Path) -> Result<(), Stop> {
    place(data_dir).wipe()?;
    let removed = std::fs::remove_dir_all(data_dir);
    removed.map_err(|error| Stop::Failed(format!("{} could not be removed: {error}", data_dir.display())))
}

/// The owner's login, with the TLS settings of every connection to this database.
pub(crate) fn owner(url: &str, tls: &DatabaseTls) -> Result<PgConnectOptions, Stop> {
    Ok(secured(parse_url(url)?, tls))
}

/// Parses the owner's login from `PLATFORM_DATABASE_URL`, which must name a database.
pub(crate) fn parse_url(url: &str) -> Result<PgConnectOptions, Stop> {
    let right = "postgres://owner:password@host:port/database";
    let bad = |why: &str| Stop::Unfit(format!("{}: the value is not {right}: {why}", DATABASE_URL.name));
    let scheme = url.starts_with("postgres://") || url.starts_with("postgresql://");
    if !scheme {
        return Err(bad("it does not begin with postgres://"));
    }
    let owner = PgConnectOptions::from_str(url).map_err(|error| bad(&error.to_string()))?;
    if owner.get_database().is_none_or(str::is_empty) {
        return Err(bad("it names no database"));
    }
    Ok(owner)
}

/// Returns the superuser's password, and creates it for a new cluster. An existing cluster cannot be used without it.
fn superuser_password(secrets: &Secrets, finished: Option<&Path>) -> Result<String, Stop> {
    match (secrets.find("db-superuser")?, finished) {
        (Some(password), _) => Ok(password),
        (None, None) => secrets.obtain("db-superuser"),
        (None, Some(folder)) => Err(Stop::Unfit(format!(
            "the database in {} exists, but secrets/db-superuser of its data directory is missing: restore that file",
            folder.display()
        ))),
    }
}

/// Returns this machine's PostgreSQL programs, or downloads them, which takes a while and may be cancelled.
pub(crate) async fn programs(settings: &Settings, data_dir: &DataDir) -> Result<Binaries, Stop> {
    let cluster = place(&data_dir.path).finished()?;
    let progress = Fetching::default();
    let tell = |what| progress.tell(what);
    let found = obtain(settings, cluster.as_deref(), Account::for_database()?, &tell).await?;
    let Binaries { folder, major } = &found;
    console::say(&format!("platform: found PostgreSQL {major} in {}", folder.display()));
    Ok(found)
}

fn place(data_dir: &Path) -> ClusterDirectory {
    ClusterDirectory { parent: data_dir.to_owned(), elsewhere: ELSEWHERE.into() }
}

/// The host under which the servers reach the embedded database: its socket, which costs both processors less than
/// loopback, or loopback where the path is too long for a socket.
pub(crate) fn embedded_host(data_dir: &Path) -> String {
    let folder = std::path::absolute(data_dir).map(|data_dir| place(&data_dir).path());
    let socket = folder.ok().and_then(|folder| socket_host(&folder).map(str::to_owned));
    socket.unwrap_or_else(|| "127.0.0.1".to_owned())
}

fn launch(binaries: Binaries, data_dir: &DataDir, port: u16, connections: u32) -> Result<Launch, Stop> {
    Ok(Launch {
        binaries,
        account: Account::for_database()?,
        log: data_dir.path.join("postgres.log"),
        port,
        settings: vec![
            ("fsync", "on".to_owned()),
            ("max_connections", connections.max(MIN_CONNECTIONS).to_string()),
            ("shared_buffers", memory::shared_buffers()),
            ("password_encryption", "scram-sha-256".to_owned()),
            ("timezone", "UTC".to_owned()),
        ],
    })
}

async fn make(place: &ClusterDirectory, launch: &Launch, password: &str) -> Result<std::path::PathBuf, Stop> {
    console::say("platform: creating the database");
    let folder = place.begin(launch.account)?;
    launch.initialise(&folder, password, true).await?;
    Ok(place.finish()?)
}

/// Starts the server. One that a killed `up` left running is adopted, also if it is recovering after a crash, or restarted
/// if it listens on another port or on no socket.
async fn start_or_adopt(launch: &Launch, folder: &Path) -> Result<Server, Stop> {
    if let Some(status) = Server::started(folder, &launch.log).await? {
        if status.ready && status.port == launch.port && status.has_socket {
            console::say("platform: adopting the running database");
            return Ok(Server::adopt(status));
        }
        Server::adopt(status).stop(STOP_PATIENCE).await;
    }
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, launch.port));
    free.map(drop).map_err(|error| {
        Stop::Unfit(format!(
            "PLATFORM_PORT_OFFSET: port {} of the embedded database cannot be used ({error}): stop the program that \
             holds it, or choose another offset",
            launch.port
        ))
    })?;
    console::say("platform: starting the database");
    Ok(launch.start(folder).await?)
}

fn superuser(port: u16, password: &str) -> PgConnectOptions {
    PgConnectOptions::new_without_pgpass()
        .host("127.0.0.1")
        .port(port)
        .username(SUPERUSER)
        .password(password)
        .database("postgres")
        .ssl_mode(PgSslMode::Disable)
}

/// Creates the platform's database unless it exists. Connecting proves that the server accepts our password.
async fn create(owner: PgConnectOptions, folder: &Path) -> Result<(), Stop> {
    let refused = |error: sqlx::Error| {
        Stop::Unfit(format!(
            "the database in {} refuses the password in secrets/db-superuser, or does not answer: {error}",
            folder.display()
        ))
    };
    let mut connection: PgConnection = owner.connect().await.map_err(refused)?;
    let exists = sqlx::query_scalar("SELECT EXISTS (SELECT FROM pg_catalog.pg_database WHERE datname = $1)");
    let exists: bool = exists.bind(NAME).fetch_one(&mut connection).await.map_err(refused)?;
    if !exists {
        sqlx::query("CREATE DATABASE platform").execute(&mut connection).await.map_err(refused)?;
    }
    connection.close().await.map_err(refused)
}

fn unreachable(error: &sqlx::Error) -> Stop {
    Stop::Unfit(format!("the database does not answer its owner: {error}"))
}
