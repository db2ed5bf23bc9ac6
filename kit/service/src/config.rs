//! The configuration that every service shares (module contract, "Authentication" 4; `operating.md`).

use std::net::IpAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use bearer::BearerConfig;
use contract::ports::PORT_OFFSET;
pub use contract::ports::offset_port;
use contract::settings::Kind;
use contract::{Reader, Settings, Variable};

use crate::inside::{self, Inside};
use crate::layers::Limits;
use crate::operator;

const LISTEN_ADDR: Variable = Variable::new(
    "PLATFORM_LISTEN_ADDR",
    Kind::Text,
    Some("127.0.0.1"),
    "Address (host only) that internal listeners bind",
);
const DB_HOST: Variable = Variable::new(
    "PLATFORM_<SERVICE>_DB_HOST",
    Kind::Text,
    Some("127.0.0.1"),
    "Database host of one service or module, or the folder of its Unix socket",
);
const DB_PORT: Variable = Variable::new(
    "PLATFORM_<SERVICE>_DB_PORT",
    Kind::Integer,
    None,
    "Database port of one service or module",
);
const DB_NAME: Variable =
    Variable::new("PLATFORM_<SERVICE>_DB_NAME", Kind::Text, None, "Database name of one service or module");
const DB_PASSWORD: Variable = Variable::new(
    "PLATFORM_<SERVICE>_DB_PASSWORD",
    Kind::Secret,
    None,
    "Password of the role platform_<service>",
);
/// Certificate authorities that connections to a database trust.
const DATABASE_CA: Variable = Variable::new(
    "PLATFORM_DATABASE_CA",
    Kind::Path,
    None,
    "PEM file of the authorities that connections to the database trust besides the public ones",
);
/// How strictly connections to a database verify TLS.
const DATABASE_TLS: Variable = Variable::new(
    "PLATFORM_DATABASE_TLS",
    Kind::Text,
    None,
    "verify-full: connections to the database are encrypted, and its certificate and name are verified (as always unless it is on loopback or a socket); prefer: encrypted where the server offers it, nothing is verified",
);
const DB_POOL: Variable = Variable::new(
    "PLATFORM_DB_POOL_MAX",
    Kind::Integer,
    Some("5"),
    "Most database connections of one service",
);
const COSTLY_READS: Variable = Variable::new(
    "PLATFORM_COSTLY_READS_MAX",
    Kind::Integer,
    None,
    "Most costly reads (lists, searches, summaries, explanations) that one service runs at once, never more than half of PLATFORM_DB_POOL_MAX; default half of this machine's processors, at least 1",
);
const DB_WORKER_POOL: Variable = Variable::new(
    "PLATFORM_DB_WORKER_POOL_MAX",
    Kind::Integer,
    Some("2"),
    "Most database connections of one service's background work, beside those of PLATFORM_DB_POOL_MAX",
);
const DRAIN_TIMEOUT: Variable = Variable::new(
    "PLATFORM_DRAIN_TIMEOUT",
    Kind::Duration,
    Some("10s"),
    "How long requests in flight, tunnels and background work may finish at a stop, after PLATFORM_DRAIN_MIN",
);
/// Address of authz, for the services that ask it.
pub const AUTHZ_BASE_URL: Variable = Variable::new(
    "PLATFORM_AUTHZ_BASE_URL",
    Kind::Url,
    None,
    "Address of authz; without it, authz's port on this machine",
);
const COMMIT: Variable =
    Variable::new("PLATFORM_COMMIT", Kind::Text, Some("unknown"), "Commit shown in platform_build_info");

/// The variables of every service.
pub const VARIABLES: &[Variable] = &[
    LISTEN_ADDR,
    PORT_OFFSET,
    DB_HOST,
    DB_PORT,
    DB_NAME,
    DB_PASSWORD,
    DATABASE_CA,
    DATABASE_TLS,
    DB_POOL,
    COSTLY_READS,
    DB_WORKER_POOL,
    DRAIN_TIMEOUT,
    COMMIT,
    operator::TOKEN,
    inside::TOKEN,
];

/// A service's database.
#[derive(Clone, Debug)]
pub struct DatabaseConfig {
    /// Host name or address.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Database.
    pub name: String,
    /// `platform_<service>`, fixed.
    pub role: String,
    /// The role's password.
    pub password: String,
    /// Maximum size of the request pool.
    pub max_connections: u32,
    /// Maximum size of the worker pool.
    pub max_worker_connections: u32,
    /// How connections are secured.
    pub tls: DatabaseTls,
}

/// How connections to a database on another machine are secured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DatabaseTls {
    /// The configured mode; `None` means [`TlsMode::VerifyFull`] for every database on another machine.
    pub mode: Option<TlsMode>,
    /// A PEM file of authorities trusted besides the public ones.
    pub ca: Option<PathBuf>,
}

/// How strictly a database's certificate is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// Verifies that a trusted authority issued the certificate and that it names the host.
    VerifyFull,
    /// Verifies nothing and allows plain text, so anyone on the path can read and change the traffic.
    Prefer,
}

impl DatabaseTls {
    /// Reads the two variables that all connections share.
    pub fn read(reader: &mut Reader<'_>) -> Self {
        let mode = |text: &str| match text {
            "verify-full" => Some(TlsMode::VerifyFull),
            "prefer" => Some(TlsMode::Prefer),
            _ => None,
        };
        let mode = reader.parsed(&DATABASE_TLS, mode, "verify-full or prefer");
        let ca = reader.optional(&DATABASE_CA).map(PathBuf::from);
        if let Some(path) = &ca {
            let text = std::fs::read_to_string(path);
            let problem = match &text {
                Ok(text) if text.contains("-----BEGIN CERTIFICATE-----") => None,
                Ok(_) => Some("holds no PEM certificate".to_owned()),
                Err(error) => Some(format!("cannot be read: {error}")),
            };
            if let Some(problem) = problem {
                reader.refuse(DATABASE_CA.name, format!("\"{}\" {problem}", path.display()));
            }
        }
        Self { mode, ca }
    }
}

/// Whether a database's host is this machine, judged by the name alone, without resolving it.
#[must_use]
pub fn is_local(host: &str) -> bool {
    host == "localhost"
        || host.starts_with('/')
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The configuration that every service reads.
#[derive(Clone, Debug)]
pub struct ServiceConfig {
    /// `org`, `timesheet`, …
    pub name: &'static str,
    /// Listen address: `PLATFORM_LISTEN_ADDR`, and the service's fixed port plus the offset.
    pub listen: (String, u16),
    /// Its database.
    pub database: DatabaseConfig,
    /// How bearers are verified.
    pub bearer: BearerConfig,
    /// How services identify each other and the operator.
    pub inside: Inside,
    /// Maximum number of costly reads at once, never more than half of the database connections.
    pub costly_reads: usize,
    /// Body limit and timeouts.
    pub limits: Limits,
    /// Longest drain.
    pub drain_timeout: Duration,
    /// For `platform_build_info`.
    pub commit: String,
}

impl ServiceConfig {
    /// Reads the shared variables of the service `name` that listens on `port`.
    pub fn read(reader: &mut Reader<'_>, name: &'static str, port: u16, limits: Limits) -> Self {
        let database = read_database(reader, name);
        Self {
            name,
            listen: (reader.text(&LISTEN_ADDR), offset_port(reader, port)),
            costly_reads: read_costly_reads(reader).min(half(database.max_connections)),
            database,
            bearer: BearerConfig::read(reader),
            inside: Inside::read(reader),
            limits,
            drain_timeout: reader.duration(&DRAIN_TIMEOUT),
            commit: reader.text(&COMMIT),
        }
    }
}

/// The base address of a foundation service: `PLATFORM_<NAME>_BASE_URL`, else its port on this machine.
pub fn base_url(reader: &mut Reader<'_>, name: &str, port: u16) -> String {
    let variable = format!("PLATFORM_{}_BASE_URL", env_name(name));
    let set = reader.settings().raw(&variable).map(ToOwned::to_owned);
    let url = set.unwrap_or_else(|| format!("http://127.0.0.1:{}", offset_port(reader, port)));
    if !(url.starts_with("http://") || url.starts_with("https://")) || url.parse::<http::Uri>().is_err() {
        reader.refuse(&variable, format!("\"{url}\" is not an http:// or https:// address"));
    }
    url.trim_end_matches('/').to_owned()
}

/// Spells a key as in variable names: `crm-backend` → `CRM_BACKEND`.
#[must_use]
pub fn env_name(key: &str) -> String {
    key.replace('-', "_").to_ascii_uppercase()
}

/// By default as many as keep half of the processors busy, so that the other half serves everyone else.
fn read_costly_reads(reader: &mut Reader<'_>) -> usize {
    let parse = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0);
    let set = reader.parsed(&COSTLY_READS, parse, "a whole number of at least 1");
    set.unwrap_or_else(|| (std::thread::available_parallelism().map_or(1, NonZero::get) / 2).max(1))
}

/// Half of the connections.
pub(crate) fn half(connections: u32) -> usize {
    usize::try_from(connections / 2).unwrap_or(usize::MAX)
}

fn read_database(reader: &mut Reader<'_>, name: &str) -> DatabaseConfig {
    let prefix = format!("PLATFORM_{}_DB_", env_name(name));
    let mut required = |what: &str| {
        let variable = format!("{prefix}{what}");
        let found = reader.settings().raw(&variable).map(ToOwned::to_owned);
        found.unwrap_or_else(|| {
            reader.refuse(&variable, "is required");
            String::new()
        })
    };
    let (port, name_, password) = (required("PORT"), required("NAME"), required("PASSWORD"));
    let port = port.parse().unwrap_or_else(|_| {
        if !port.is_empty() {
            reader.refuse(&format!("{prefix}PORT"), format!("\"{port}\" is not a port from 1 to 65535"));
        }
        0
    });
    let host: &Settings = reader.settings();
    let host = host.raw(&format!("{prefix}HOST")).unwrap_or("127.0.0.1").to_owned();
    let mut most = |variable| u32::try_from(reader.integer(variable, 1)).unwrap_or(u32::MAX);
    let (max_connections, max_worker_connections) = (most(&DB_POOL), most(&DB_WORKER_POOL));
    let tls = DatabaseTls::read(reader);
    DatabaseConfig {
        host,
        port,
        name: name_,
        role: format!("platform_{name}"),
        password,
        max_connections,
        max_worker_connections,
        tls,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costly_reads(connections: &str, reads: Option<&str>) -> Result<usize, String> {
        let mut settings = Settings::default()
            .with("PLATFORM_DOCS_DB_PORT", "5433")
            .with("PLATFORM_DOCS_DB_NAME", "platform")
            .with("PLATFORM_DOCS_DB_PASSWORD", "x")
            .with("IDP_JWKS_URL", "http://127.0.0.1:8190/certs")
            .with("IDP_ISSUER_URL", "https://localhost:8443/realms/platform")
            .with(DB_POOL.name, connections);
        if let Some(reads) = reads {
            settings = settings.with(COSTLY_READS.name, reads);
        }
        let mut reader = settings.reader();
        let config = ServiceConfig::read(&mut reader, "docs", 9170, Limits::MODULE);
        reader.finish(config.costly_reads).map_err(|problems| problems.to_string())
    }

    #[test]
    fn costly_reads_take_half_of_the_processors_and_of_the_connections_at_most() {
        assert_eq!(costly_reads("8", Some("1")), Ok(1));
        assert_eq!(costly_reads("8", Some("4")), Ok(4));
        assert_eq!(costly_reads("8", Some("5")), Ok(4), "half of the connections serve everyone else");
        let processors = std::thread::available_parallelism().expect("known").get();
        assert_eq!(costly_reads("10000", None), Ok((processors / 2).max(1)));
        for bad in ["0", "-1", "many"] {
            let problem = costly_reads("8", Some(bad)).expect_err(bad);
            assert!(problem.starts_with("PLATFORM_COSTLY_READS_MAX: "), "{problem}");
        }
    }
}
