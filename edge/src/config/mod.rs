//! The gateway's configuration: one struct, read at startup; every invalid value is reported. `variables.rs` defines
//! the variables.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use bearer::BearerConfig;
use contract::settings::Problems;
use contract::{Reader, Settings, Variable, ports};

mod addresses;
mod authority;
mod hosts;
mod rates;
mod service;
mod tls;
mod trusted_proxies;
mod upgrades;
mod upstreams;
mod variables;

use crate::config::variables::{
    AUTHZ_URL, BODY_IDLE, CLIENT_SHARE, COMMIT, DIAL_TIMEOUT, DRAIN_MIN, DRAIN_TIMEOUT, EXTRA_ORIGINS,
    HEADER_TIMEOUT, IDENTITY_URL, IDP_URL, KEEP_ALIVE, MAX_BODY, MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_ADDRESS, MAX_HANDSHAKES, MAX_HEADER_BYTES, MAX_HEADERS, MAX_STREAMS, MAX_TUNNELS,
    MAX_URI, MIN_RATE, MIN_RATE_GRACE, MODULE_HOST_PREFIX, MODULE_MAX_BODY, ORG_URL, POOL_IDLE, PORT_OFFSET,
    PROXY_PROTOCOL, REGISTRY_URL, RESPONSE_HEADER_TIMEOUT, STREAM_IDLE, TLS_TIMEOUT, TRUSTED_PROXIES,
    UPSTREAM_CA, UPSTREAM_CONCURRENCY, WORKERS,
};
pub use crate::config::variables::{TLS_CERT, TLS_KEY, VARIABLES};
pub use addresses::{EDGE_ADDR, EDGE_PLAIN_ADDR, ListenAddresses};
pub(crate) use authority::Authority;
pub(crate) use hosts::OwnHosts;
pub(crate) use rates::{LeastRate, Rate, Rates};
pub(crate) use service::{Destination, Service};
pub(crate) use tls::{Pair, TlsFiles, roots_of};
pub(crate) use trusted_proxies::TrustedProxies;
pub(crate) use upgrades::Upgrades;
pub(crate) use upstreams::{Capacity, UpstreamProtocol};

/// The shortest time limit: less would end exchanges that have hardly started.
const LEAST_TIME: &str = "100ms";
/// The smallest limit on a head, a path or a body.
const LEAST_SIZE: &str = "1KiB";
/// The smallest limit on the number of headers: an ordinary browser sends a dozen.
const LEAST_HEADERS: u64 = 16;

/// The gateway's configuration.
#[derive(Clone, Debug)]
pub struct EdgeConfig {
    pub(crate) tls: TlsFiles,
    pub(crate) bearer: BearerConfig,
    pub(crate) origins: Vec<String>,
    pub(crate) hosts: OwnHosts,
    pub(crate) trusted: TrustedProxies,
    /// Peers that send the client's address in a PROXY header.
    pub(crate) proxies: TrustedProxies,
    pub(crate) rates: Rates,
    /// Protocols to which clients may upgrade.
    pub(crate) upgrades: Upgrades,
    pub(crate) commit: String,
    /// The access log is JSON, as the process's other lines are.
    pub(crate) json_log: bool,
    /// How long new connections are still accepted during shutdown.
    pub(crate) drain_min: Duration,
    pub(crate) drain_timeout: Duration,
    /// Threads that serve requests; by default one per core.
    pub(crate) workers: usize,
    /// The authorities of `https://` upstreams; by default the system's roots.
    pub(crate) upstream_ca: Option<PathBuf>,
    pub(crate) addresses: Addresses,
    pub(crate) budgets: Budgets,
    pub(crate) limits: Limits,
    pub(crate) timers: Timers,
}

/// The addresses of the upstreams.
#[derive(Clone, Debug)]
pub(crate) struct Addresses {
    pub(crate) registry: Authority,
    pub(crate) identity: Authority,
    pub(crate) org: Authority,
    pub(crate) authz: Authority,
    pub(crate) idp: Authority,
    pub(crate) modules: HashMap<String, Vec<ModuleHost>>,
    pub(crate) port_offset: u16,
}

/// One host of a module; the manifest's port applies if none is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModuleHost {
    pub(crate) speaks: UpstreamProtocol,
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
}

/// Limits of an upstream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budgets {
    pub(crate) dial: Duration,
    pub(crate) first_byte: Duration,
    pub(crate) body_idle: Duration,
    pub(crate) stream_idle: Duration,
    pub(crate) pool_idle: Duration,
    pub(crate) capacity: Capacity,
}

/// Limits of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) header_bytes: usize,
    pub(crate) headers: usize,
    pub(crate) uri: usize,
    pub(crate) body: usize,
    pub(crate) module_body: Option<usize>,
    pub(crate) streams: u32,
    pub(crate) connections: usize,
    /// `None` for no limit.
    pub(crate) connections_per_address: Option<usize>,
    pub(crate) handshakes: usize,
    /// Tunnels and long answers.
    pub(crate) tunnels: usize,
}

/// Time limits of a client's connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timers {
    pub(crate) head: Duration,
    pub(crate) tls: Duration,
    pub(crate) keep_alive: Duration,
    pub(crate) stream_idle: Duration,
    pub(crate) least_rate: LeastRate,
}

impl EdgeConfig {
    /// Reads every variable of the gateway.
    ///
    /// # Errors
    /// Every invalid or missing value, not only the first.
    pub fn read(settings: &Settings) -> Result<Self, Problems> {
        let mut reader = settings.reader();
        let offset = port_offset(&mut reader);
        let origins = origins(&mut reader, offset);
        let (trusted, proxies) =
            (networks(&mut reader, &TRUSTED_PROXIES), networks(&mut reader, &PROXY_PROTOCOL));
        let behind_a_balancer = !(trusted.is_empty() && proxies.is_empty());
        let config = Self {
            tls: TlsFiles::read(&mut reader),
            bearer: BearerConfig::read(&mut reader),
            hosts: OwnHosts::read(&mut reader, offset, &origins),
            origins,
            trusted,
            proxies,
            rates: Rates::read(&mut reader),
            upgrades: Upgrades::read(&mut reader),
            commit: reader.text(&COMMIT),
            json_log: reader.text(&telemetry::LOG_FORMAT) == "json",
            drain_min: reader.duration(&DRAIN_MIN),
            drain_timeout: reader.duration(&DRAIN_TIMEOUT),
            workers: workers(&mut reader),
            upstream_ca: tls::authorities(&mut reader, &UPSTREAM_CA),
            addresses: addresses(&mut reader, offset),
            budgets: budgets(&mut reader),
            limits: limits(&mut reader, behind_a_balancer),
            timers: timers(&mut reader),
        };
        reader.finish(config)
    }

    /// Whether connections from this address must start with a PROXY header.
    #[must_use]
    pub fn expects_proxy_header(&self, peer: IpAddr) -> bool {
        self.proxies.contain(peer)
    }
}

impl Addresses {
    /// The address of a foundation service or the provider.
    pub(crate) const fn service(&self, service: Service) -> &Authority {
        match service {
            Service::Authz => &self.authz,
            Service::Org => &self.org,
            Service::Registry => &self.registry,
            Service::Identity => &self.identity,
            Service::Idp => &self.idp,
        }
    }

    /// The addresses of a module, one or several: from its own variable, by default loopback and the manifest's port
    /// with the offset.
    pub(crate) fn module(&self, key: &str, manifest_port: u16) -> Vec<(UpstreamProtocol, Authority)> {
        let shifted = manifest_port.saturating_add(self.port_offset);
        let given = self.modules.get(key).map_or(&[][..], Vec::as_slice);
        let host = |host: &ModuleHost| {
            (host.speaks, Authority::new(host.host.clone(), host.port.unwrap_or(shifted)))
        };
        if given.is_empty() {
            return vec![(UpstreamProtocol::Http1, Authority::new("127.0.0.1".to_owned(), shifted))];
        }
        given.iter().map(host).collect()
    }
}

fn port_offset(reader: &mut Reader<'_>) -> u16 {
    let highest = ports::POSTGRES.max(ports::EDGE);
    let fits = |offset: &u16| highest.checked_add(*offset).is_some();
    u16::try_from(reader.integer(&PORT_OFFSET, 0)).ok().filter(fits).unwrap_or_else(|| {
        reader.refuse(PORT_OFFSET.name, "is too large: every port must stay below 65536");
        0
    })
}

/// The origin of the public address, and the extra origins.
fn origins(reader: &mut Reader<'_>, offset: u16) -> Vec<String> {
    let mut origins = vec![format!("https://{}", hosts::domain(reader, offset))];
    for origin in reader.list(&EXTRA_ORIGINS) {
        match web_origin(&origin) {
            Some(origin) => origins.push(origin),
            None => reader.refuse(
                EXTRA_ORIGINS.name,
                format!("\"{origin}\" is not an origin such as https://app.example"),
            ),
        }
    }
    origins
}

/// Parses `scheme://host[:port]` without a path, as browsers write it in `Origin`.
fn web_origin(text: &str) -> Option<String> {
    let uri: http::Uri = text.parse().ok()?;
    let bare = uri.path_and_query().is_none_or(|path| path.as_str() == "/");
    let scheme = uri.scheme_str().filter(|scheme| matches!(*scheme, "http" | "https"))?;
    let authority = uri.authority().filter(|authority| bare && host_and_port(authority).is_some())?;
    Some(format!("{scheme}://{}", authority.as_str().to_ascii_lowercase()))
}

fn networks(reader: &mut Reader<'_>, variable: &Variable) -> TrustedProxies {
    let mut networks = TrustedProxies::default();
    for text in reader.list(variable) {
        if !networks.add(&text) {
            let message =
                format!("\"{text}\" is not a network such as 10.0.0.0/8, with no bit set after the prefix");
            reader.refuse(variable.name, message);
        }
    }
    networks
}

fn addresses(reader: &mut Reader<'_>, offset: u16) -> Addresses {
    Addresses {
        registry: base_url(reader, &REGISTRY_URL, ports::REGISTRY + offset),
        identity: base_url(reader, &IDENTITY_URL, ports::IDENTITY + offset),
        org: base_url(reader, &ORG_URL, ports::ORG + offset),
        authz: base_url(reader, &AUTHZ_URL, ports::AUTHZ + offset),
        idp: base_url(reader, &IDP_URL, ports::IDP + offset),
        modules: module_hosts(reader),
        port_offset: offset,
    }
}

fn base_url(reader: &mut Reader<'_>, variable: &Variable, default_port: u16) -> Authority {
    let right = "an address such as http://127.0.0.1:8110 (http, no path)";
    let parse = |text: &str| {
        let uri: http::Uri = text.parse().ok()?;
        let plain =
            uri.scheme_str() == Some("http") && matches!(uri.path(), "" | "/") && uri.query().is_none();
        let (host, port) = host_and_port(uri.authority().filter(|_| plain)?)?;
        Some(Authority::new(host.to_owned(), port.unwrap_or(80)))
    };
    let loopback = || Authority::new("127.0.0.1".to_owned(), default_port);
    reader.parsed(variable, parse, right).unwrap_or_else(loopback)
}

fn module_hosts(reader: &mut Reader<'_>) -> HashMap<String, Vec<ModuleHost>> {
    let given: Vec<(String, String)> = reader
        .settings()
        .iter()
        .filter_map(|(name, value)| {
            Some((name.strip_prefix(MODULE_HOST_PREFIX)?.to_owned(), value.to_owned()))
        })
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let mut hosts = HashMap::new();
    for (key, value) in given {
        match value.split(',').map(|text| module_host(text.trim())).collect::<Option<Vec<_>>>() {
            Some(several) => drop(hosts.insert(key.to_ascii_lowercase(), several)),
            None => reader.refuse(
                &format!("{MODULE_HOST_PREFIX}{key}"),
                format!("\"{value}\" is not host or host:port, with h2c:// or https:// before it, or several of these with commas"),
            ),
        }
    }
    hosts
}

fn module_host(text: &str) -> Option<ModuleHost> {
    let (speaks, text) = match text.split_once("://") {
        Some(("h2c", rest)) => (UpstreamProtocol::H2c, rest),
        Some(("https", rest)) => (UpstreamProtocol::Https, rest),
        Some(_) => return None,
        None => (UpstreamProtocol::Http1, text),
    };
    let authority: http::uri::Authority = text.parse().ok()?;
    let (host, port) = host_and_port(&authority)?;
    (!host.is_empty()).then(|| ModuleHost { speaks, host: host.to_owned(), port })
}

/// The host of an address and its port, if it gives one. `None` for a port that is not from 1 to 65535, and for
/// user information before the host.
fn host_and_port(authority: &http::uri::Authority) -> Option<(&str, Option<u16>)> {
    let host = authority.host();
    match authority.as_str().strip_prefix(host)? {
        "" => Some((host, None)),
        rest => {
            let port = rest.strip_prefix(':')?.parse().ok().filter(|port| *port > 0)?;
            Some((host, Some(port)))
        }
    }
}

/// The number of threads: at least one, and no more than any machine has cores.
fn workers(reader: &mut Reader<'_>) -> usize {
    const MOST: u64 = 1_024;
    let Some(given) = reader.optional(&WORKERS) else {
        return std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    };
    let number = given.parse().ok().filter(|number| (1..=MOST).contains(number));
    if number.is_none() {
        reader.refuse(WORKERS.name, format!("\"{given}\" is not a number from 1 to {MOST}"));
    }
    number.and_then(|number| usize::try_from(number).ok()).unwrap_or(1)
}

fn budgets(reader: &mut Reader<'_>) -> Budgets {
    Budgets {
        dial: reader.duration_from(&DIAL_TIMEOUT, LEAST_TIME),
        first_byte: reader.duration_from(&RESPONSE_HEADER_TIMEOUT, LEAST_TIME),
        body_idle: reader.duration_from(&BODY_IDLE, LEAST_TIME),
        stream_idle: reader.duration_from(&STREAM_IDLE, LEAST_TIME),
        pool_idle: reader.duration_from(&POOL_IDLE, LEAST_TIME),
        capacity: Capacity {
            requests: count(reader, &UPSTREAM_CONCURRENCY),
            share: percent(reader, &CLIENT_SHARE),
        },
    }
}

fn limits(reader: &mut Reader<'_>, behind_a_balancer: bool) -> Limits {
    Limits {
        header_bytes: reader.size_from(&MAX_HEADER_BYTES, LEAST_SIZE),
        headers: usize::try_from(reader.integer(&MAX_HEADERS, LEAST_HEADERS)).unwrap_or(usize::MAX),
        uri: reader.size_from(&MAX_URI, LEAST_SIZE),
        body: reader.size_from(&MAX_BODY, LEAST_SIZE),
        module_body: reader.optional_size_from(&MODULE_MAX_BODY, LEAST_SIZE),
        streams: u32::try_from(reader.integer(&MAX_STREAMS, 1)).unwrap_or(u32::MAX),
        connections: count(reader, &MAX_CONNECTIONS),
        connections_per_address: connections_per_address(reader, behind_a_balancer),
        handshakes: count(reader, &MAX_HANDSHAKES),
        tunnels: count(reader, &MAX_TUNNELS),
    }
}

/// The connection limit per address. Unset, there is none behind a balancer, whose address stands for many clients; 0
/// means no limit.
fn connections_per_address(reader: &mut Reader<'_>, behind_a_balancer: bool) -> Option<usize> {
    const MOST: usize = 1_000;
    let Some(given) = reader.optional(&MAX_CONNECTIONS_PER_ADDRESS) else {
        return (!behind_a_balancer).then_some(MOST);
    };
    let number = given.parse::<usize>();
    if number.is_err() {
        reader.refuse(MAX_CONNECTIONS_PER_ADDRESS.name, format!("\"{given}\" is not a whole number"));
    }
    number.ok().filter(|number| *number > 0)
}

fn timers(reader: &mut Reader<'_>) -> Timers {
    Timers {
        head: reader.duration_from(&HEADER_TIMEOUT, LEAST_TIME),
        tls: reader.duration_from(&TLS_TIMEOUT, LEAST_TIME),
        keep_alive: reader.duration_from(&KEEP_ALIVE, LEAST_TIME),
        stream_idle: reader.duration_from(&STREAM_IDLE, LEAST_TIME),
        least_rate: least_rate(reader),
    }
}

fn least_rate(reader: &mut Reader<'_>) -> LeastRate {
    let bytes = reader.size(&MIN_RATE);
    LeastRate {
        bytes: u32::try_from(bytes).unwrap_or_else(|_| {
            reader.refuse(MIN_RATE.name, format!("{bytes} bytes are more than 4 GiB a second"));
            0
        }),
        grace: reader.duration(&MIN_RATE_GRACE),
    }
}

/// A percentage from 1 to 100.
fn percent(reader: &mut Reader<'_>, variable: &Variable) -> usize {
    let parse = |text: &str| text.parse().ok().filter(|percent| (1..=100).contains(percent));
    reader.parsed(variable, parse, "a whole number from 1 to 100").unwrap_or(100)
}

/// A count of at least one, and at most what a semaphore can hold.
fn count(reader: &mut Reader<'_>, variable: &Variable) -> usize {
    usize::try_from(reader.integer(variable, 1))
        .unwrap_or(usize::MAX)
        .min(tokio::sync::Semaphore::MAX_PERMITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings::default()
            .with("PLATFORM_TLS_CERT", "edge.pem")
            .with("PLATFORM_TLS_KEY", "edge.key")
            .with("IDP_JWKS_URL", "http://127.0.0.1:8190/certs")
            .with("IDP_ISSUER_URL", "https://localhost:8443/realms/platform")
    }

    #[test]
    fn the_defaults_are_those_of_the_specification_and_follow_the_port_offset() {
        let config =
            EdgeConfig::read(&settings().with("PLATFORM_PORT_OFFSET", "100")).expect("good settings");
        assert_eq!(config.budgets.dial, Duration::from_secs(2));
        assert_eq!(config.budgets.first_byte, Duration::from_secs(5));
        assert_eq!(config.limits.body, 1 << 20);
        assert_eq!(config.limits.module_body, None);
        assert_eq!(config.origins, ["https://localhost:8543"]);
        assert_eq!(config.addresses.authz, Authority::new("127.0.0.1".to_owned(), 8240));
        let loopback = Authority::new("127.0.0.1".to_owned(), 8260);
        assert_eq!(config.addresses.module("timesheet", 8160), [(UpstreamProtocol::Http1, loopback)]);
    }

    #[test]
    fn the_connections_of_an_address_are_limited_except_behind_a_balancer() {
        let limit = |variables: &[(&str, &str)]| {
            let given = variables.iter().fold(settings(), |given, (name, value)| given.with(*name, *value));
            EdgeConfig::read(&given).expect("good settings").limits.connections_per_address
        };
        let own = |value| ("PLATFORM_GATEWAY_MAX_CONNECTIONS_PER_ADDRESS", value);
        assert_eq!(limit(&[]), Some(1_000));
        assert_eq!((limit(&[own("7")]), limit(&[own("0")])), (Some(7), None));
        for balancer in ["PLATFORM_TRUSTED_PROXIES", "PLATFORM_PROXY_PROTOCOL"] {
            let balancer = (balancer, "10.0.0.0/8");
            assert_eq!((limit(&[balancer]), limit(&[balancer, own("7")])), (None, Some(7)));
        }
    }

    #[test]
    fn the_allowed_origins_are_written_as_browsers_write_them() {
        let given = settings()
            .with("PLATFORM_DOMAIN", "Platform.example:443")
            .with("PLATFORM_EXTRA_ORIGINS", "http://localhost:5173, https://App.example/");
        let config = EdgeConfig::read(&given).expect("good settings");
        assert_eq!(
            config.origins,
            ["https://platform.example", "http://localhost:5173", "https://app.example"]
        );
    }

    #[test]
    fn a_module_host_wins_over_the_default_and_its_port_over_the_manifest() {
        let config = EdgeConfig::read(
            &settings()
                .with("PLATFORM_MODULE_HOST_DOCS", "docs.internal")
                .with("PLATFORM_MODULE_HOST_HELPDESK", "[::1]:9000")
                .with(
                    "PLATFORM_MODULE_HOST_TIMESHEET",
                    "a.example, h2c://b.example:1,https://c.example:65535",
                ),
        )
        .expect("good settings");
        let hosts = |key, port| {
            let host = |(speaks, authority): (UpstreamProtocol, Authority)| {
                format!("{speaks:?} {}", authority.host_header())
            };
            config.addresses.module(key, port).into_iter().map(host).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(hosts("docs", 8170), "Http1 docs.internal:8170");
        assert_eq!(hosts("helpdesk", 8180), "Http1 [::1]:9000");
        assert_eq!(hosts("timesheet", 8160), "Http1 a.example:8160, H2c b.example:1, Https c.example:65535");
    }

    #[test]
    fn authorities_that_cannot_be_used_are_told_by_variable_path_and_reason() {
        let folder = std::env::temp_dir().join(format!("edge-authorities-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = |name: &str, text: &str| {
            let file = folder.join(name);
            std::fs::write(&file, text).expect("a file");
            file.to_string_lossy().into_owned()
        };
        let good = rcgen::generate_simple_self_signed(vec!["ca.example".to_owned()]).expect("a certificate");
        let good = file("good.pem", &good.cert.pem());
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for name in ["PLATFORM_GATEWAY_UPSTREAM_CA", "PLATFORM_TLS_CLIENT_CA"] {
            for (file, reason) in [
                (folder.join("missing.pem").to_string_lossy().into_owned(), "No such file"),
                (folder.to_string_lossy().into_owned(), "directory"),
                (file("empty.pem", "no PEM"), "no certificate"),
                (file("broken.pem", broken), "invalid"),
            ] {
                let problems = EdgeConfig::read(&settings().with(name, file.as_str())).expect_err(reason);
                let text = problems.to_string();
                assert!(
                    [name, file.as_str(), reason].iter().all(|part| text.contains(part)),
                    "{reason}: {text}"
                );
                assert_eq!(problems.0.len(), 1, "{text}");
            }
            assert!(EdgeConfig::read(&settings().with(name, good.as_str())).is_ok(), "{name}");
        }
        std::fs::remove_dir_all(&folder).expect("the test's own folder");
    }

    #[test]
    fn every_bad_value_is_named() {
        for (name, value) in [
            ("PLATFORM_ORG_BASE_URL", "https://org.internal"),
            ("PLATFORM_ORG_BASE_URL", "http://org.internal/base"),
            ("PLATFORM_ORG_BASE_URL", "http://org.internal:0"),
            ("PLATFORM_ORG_BASE_URL", "http://org.internal:65536"),
            ("PLATFORM_ORG_BASE_URL", "http://u@org.internal"),
            ("PLATFORM_DOMAIN", "a b"),
            ("PLATFORM_DOMAIN", "https://a.example"),
            ("PLATFORM_DOMAIN", "u@a.example"),
            ("PLATFORM_DOMAIN", "a.example:0"),
            ("PLATFORM_DOMAIN", "a.example:65536"),
            ("PLATFORM_GATEWAY_STRICT_HOST", "yes"),
            ("PLATFORM_EXTRA_ORIGINS", "https://a.example/path"),
            ("PLATFORM_EXTRA_ORIGINS", "a.example"),
            ("PLATFORM_EXTRA_ORIGINS", "https://a.example:0"),
            ("PLATFORM_EXTRA_ORIGINS", "https://a.example:65536"),
            ("PLATFORM_TRUSTED_PROXIES", "10.0.0.0/33"),
            ("PLATFORM_TRUSTED_PROXIES", "10.0.0.1/8"),
            ("PLATFORM_PROXY_PROTOCOL", "balancer"),
            ("PLATFORM_TLS_PAIRS", "chain.pem"),
            ("PLATFORM_TLS_PAIRS", "chain.pem:"),
            ("PLATFORM_TLS_CLIENT_REQUIRED", "maybe"),
            ("PLATFORM_GATEWAY_UPGRADES", "h2c"),
            ("PLATFORM_GATEWAY_UPGRADES", "chat, HTTP/2.0"),
            ("PLATFORM_GATEWAY_UPGRADES", "a b"),
            ("PLATFORM_GATEWAY_UPGRADES", "*"),
            ("PLATFORM_GATEWAY_UPGRADES", "chat, web*"),
            ("PLATFORM_RATE_LIMIT", "10"),
            ("PLATFORM_RATE_LIMIT_ANONYMOUS", "10/d"),
            ("PLATFORM_MODULE_HOST_DOCS", "ftp://docs"),
            ("PLATFORM_MODULE_HOST_DOCS", "docs,,docs"),
            ("PLATFORM_MODULE_HOST_DOCS", "u@docs"),
            ("PLATFORM_MODULE_HOST_DOCS", "docs:"),
            ("PLATFORM_MODULE_HOST_DOCS", "docs:0"),
            ("PLATFORM_MODULE_HOST_DOCS", "docs:65536"),
            ("PLATFORM_MODULE_HOST_DOCS", "[::1]:0"),
            ("PLATFORM_MODULE_DIAL_TIMEOUT", "99ms"),
            ("PLATFORM_MODULE_RESPONSE_HEADER_TIMEOUT", "0s"),
            ("PLATFORM_GATEWAY_HEADER_TIMEOUT", "0s"),
            ("PLATFORM_GATEWAY_TLS_TIMEOUT", "0s"),
            ("PLATFORM_GATEWAY_BODY_IDLE", "0s"),
            ("PLATFORM_GATEWAY_STREAM_IDLE", "0s"),
            ("PLATFORM_GATEWAY_POOL_IDLE", "0s"),
            ("PLATFORM_GATEWAY_KEEP_ALIVE", "99ms"),
            ("PLATFORM_GATEWAY_MAX_HEADER_BYTES", "1023"),
            ("PLATFORM_GATEWAY_MAX_URI", "0"),
            ("PLATFORM_GATEWAY_MAX_BODY", "1023B"),
            ("PLATFORM_MODULE_MAX_BODY", "1023B"),
            ("PLATFORM_GATEWAY_MAX_HEADERS", "15"),
            ("PLATFORM_GATEWAY_WORKERS", "0"),
            ("PLATFORM_GATEWAY_WORKERS", "1025"),
            ("PLATFORM_GATEWAY_WORKERS", "many"),
            ("PLATFORM_PORT_OFFSET", "60000"),
            ("PLATFORM_MODULE_DIAL_TIMEOUT", "2"),
            ("PLATFORM_GATEWAY_MAX_STREAMS", "0"),
            ("PLATFORM_GATEWAY_MAX_CONNECTIONS_PER_ADDRESS", "-1"),
            ("PLATFORM_GATEWAY_MAX_CONNECTIONS_PER_ADDRESS", "many"),
        ] {
            let problems = EdgeConfig::read(&settings().with(name, value)).expect_err(value);
            assert_eq!(problems.0.len(), 1, "{problems}");
            assert_eq!(problems.0[0].name, name, "{problems}");
        }
    }
}
