//! The plan of a run: the servers with their settings, the logins of their roles, and the addresses. Pure except for
//! the secrets, which the caller supplies.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;

use contract::Settings;
use contract::settings::{Problem, Problems};
use edge::EdgeConfig;
use edge::ListenAddresses;
use service::config::{env_name, offset_port};
use service::migrate::Login;
use service::{operator, sealed};

use super::UpConfig;
use crate::catalog::{self, IDP, Part, Start};
use crate::console;
use crate::database;
use crate::secrets::OPERATOR;
use crate::stop::Stop;
use crate::variables::all;

/// Connections outside the services' pools: the feed, the writer of denials, migrations, an operator.
const SPARE_CONNECTIONS: u32 = 20;

/// The client that reads account state at the built-in provider.
const ADMIN_CLIENT: &str = "platform-admin";

/// Name of the kept keys that seal secrets in the database. Adding a new key before the old ones rotates them.
const SEALING_KEYS: &str = "sealing-keys";

/// Variable with the non-public networks that webhooks may reach.
const WEBHOOK_NETWORKS: &str = "PLATFORM_NOTIFICATION_WEBHOOK_ALLOW_CIDRS";

/// Everything that a run needs besides listeners and the database.
pub(crate) struct Plan {
    /// The settings that all servers share.
    pub(crate) settings: Settings,
    pub(crate) servers: Vec<Planned>,
    pub(crate) edge: EdgeConfig,
    pub(crate) edge_addresses: ListenAddresses,
    pub(crate) listen: IpAddr,
    pub(crate) logins: Vec<Login>,
    /// Whether the gateway expects connections from this machine to begin with a PROXY header, as a load balancer's do.
    pub(crate) is_behind_proxy: bool,
    pool_size: u32,
    pub(crate) urls: Urls,
}

/// One server to be started.
pub(crate) struct Planned {
    pub(crate) name: &'static str,
    pub(crate) port: u16,
    pub(crate) start: Start,
}

/// The addresses of a running platform.
#[derive(Clone, Debug)]
pub(crate) struct Urls {
    /// Public address.
    pub(crate) base: String,
    /// Issuer of tokens.
    pub(crate) issuer: String,
    /// Name and address of each internal listener.
    pub(crate) internal: Vec<(&'static str, String)>,
    /// The gateway itself, as this machine reaches it.
    pub(crate) edge: ListenAddresses,
    /// The CA that clients must trust, if the certificate is a development one.
    pub(crate) ca: Option<PathBuf>,
}

impl Plan {
    /// Makes the plan; `secret` returns a kept secret by name. Reports every problem of every server together.
    pub(crate) fn make(
        settings: &Settings,
        config: &UpConfig,
        secret: impl Fn(&str) -> Result<String, Stop>,
    ) -> Result<Self, Stop> {
        let urls = urls(settings, config);
        let logins = logins(settings, &secret)?;
        let shared = shared(settings, config, &urls, &logins, &secret)?;
        let (servers, mut problems) = configure(&shared, config);
        problems.extend(nobody_to_administer(&shared, config));
        let edge = EdgeConfig::read(&shared);
        problems.extend(edge.as_ref().err().into_iter().flat_map(|found| found.0.clone()));
        let own = config.edge.plain.unwrap_or(config.edge.tls).ip();
        let is_behind_proxy = edge.as_ref().is_ok_and(|edge| edge.expects_proxy_header(own));
        match edge {
            Ok(edge) if problems.is_empty() => Ok(Self {
                servers,
                edge,
                edge_addresses: config.edge,
                listen: config.listen,
                logins,
                pool_size: pool_size(&shared),
                urls,
                is_behind_proxy,
                settings: shared,
            }),
            _ => Err(Problems(unique(problems)).into()),
        }
    }

    /// Number of database connections that everything together needs.
    pub(crate) fn connections(&self) -> u32 {
        let pools = u32::try_from(self.servers.len()).unwrap_or(u32::MAX);
        pools.saturating_mul(self.pool_size).saturating_add(SPARE_CONNECTIONS)
    }
}

impl Urls {
    /// Prints the addresses as a table.
    pub(crate) fn print(&self) {
        console::say(&format!("  {:<13} {}", "platform", self.base));
        console::say(&format!("  {:<13} {}", "issuer", self.issuer));
        if let Some(ca) = &self.ca {
            console::say(&format!("  {:<13} {} (curl --cacert)", "trust", ca.display()));
        }
        if let Some(plain) = self.edge.plain {
            console::say(&format!("  {:<13} http://{plain}", "without TLS"));
        }
        for (name, url) in &self.internal {
            console::say(&format!("  {name:<13} {url}"));
        }
        console::say("  next: `platform demo` in a second shell in this folder; Ctrl-C stops");
    }
}

fn urls(settings: &Settings, config: &UpConfig) -> Urls {
    let base = format!("https://{}", config.domain);
    let host = reached_at(config.listen);
    let mut reader = settings.reader();
    let mut address = |part: &Part| format!("http://{host}:{}", offset_port(&mut reader, part.port));
    let parts = catalog::parts();
    let running = parts.iter().filter(|part| runs(part, config));
    let internal = running.map(|part| (part.name, address(part))).collect();
    let ca = config.makes_certificates.then(|| config.data_dir.join("certs/ca.pem"));
    Urls { issuer: format!("{base}/realms/{}", config.realm), base, internal, edge: config.edge, ca }
}

/// The host under which this machine reaches a listener; loopback for a listener on every address.
pub(crate) fn reached_at(listen: IpAddr) -> String {
    match listen {
        any if any.is_unspecified() => "127.0.0.1".to_owned(),
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

/// Whether the part runs: all services do, and the installed modules, and the built-in provider if there is no other.
fn runs(part: &Part, config: &UpConfig) -> bool {
    let is_module = catalog::bundles().iter().any(|bundle| bundle.key == part.name);
    match part.name {
        IDP => config.idp_url.is_none(),
        name => !is_module || config.modules.iter().any(|key| key == name),
    }
}

/// The logins of all parts, each with the password that the operator chose, else a kept one.
fn logins(settings: &Settings, secret: &impl Fn(&str) -> Result<String, Stop>) -> Result<Vec<Login>, Stop> {
    let login = |part: Part| {
        let chosen = settings.raw(&format!("PLATFORM_{}_DB_PASSWORD", env_name(part.name)));
        let password =
            chosen.map_or_else(|| secret(&format!("db-{}", part.name)), |chosen| Ok(chosen.to_owned()))?;
        Ok(Login { key: part.name.to_owned(), password })
    };
    catalog::parts().into_iter().map(login).collect()
}

fn shared(
    settings: &Settings,
    config: &UpConfig,
    urls: &Urls,
    logins: &[Login],
    secret: &impl Fn(&str) -> Result<String, Stop>,
) -> Result<Settings, Stop> {
    let mut shared = settings.clone().with("PLATFORM_DOMAIN", &config.domain);
    let (host, port, name) = database_address(config)?;
    for login in logins {
        let prefix = format!("PLATFORM_{}_DB", env_name(&login.key));
        shared = shared
            .with(format!("{prefix}_HOST"), &host)
            .with(format!("{prefix}_PORT"), port.to_string())
            .with(format!("{prefix}_NAME"), &name)
            .with(format!("{prefix}_PASSWORD"), &login.password);
    }
    for (name, url) in &urls.internal {
        shared.default_to(format!("PLATFORM_{}_BASE_URL", env_name(name)), url);
    }
    if config.database_url.is_none() {
        // The embedded database is on this machine and has no certificate.
        shared = shared.with("PLATFORM_DATABASE_TLS", "");
    }
    shared.default_to("PLATFORM_INSTALLED_MODULES", config.modules.join(","));
    default_secret(&mut shared, operator::TOKEN.name, OPERATOR, secret)?;
    default_secret(&mut shared, sealed::KEYS.name, SEALING_KEYS, secret)?;
    if config.domain.split(':').next() == Some("localhost") {
        // On a developer's machine webhooks may reach the machine itself, except for the platform's own ports.
        shared.default_to(WEBHOOK_NETWORKS, "127.0.0.0/8,::1/128");
    }
    provider(shared, config, urls, secret)
}

/// Adds the identity provider's addresses and the secrets of its clients.
fn provider(
    shared: Settings,
    config: &UpConfig,
    urls: &Urls,
    secret: &impl Fn(&str) -> Result<String, Stop>,
) -> Result<Settings, Stop> {
    let built_in = urls.internal.iter().find(|(name, _)| *name == IDP).map(|(_, url)| url.clone());
    let internal = config.idp_url.clone().or(built_in).unwrap_or_default();
    let certs = format!("{internal}/realms/{}/protocol/openid-connect/certs", config.realm);
    let mut shared = shared
        .with("PLATFORM_IDP_URL", internal)
        .with("IDP_JWKS_URL", certs)
        .with("IDP_ISSUER_URL", &urls.issuer);
    if config.idp_url.is_none() {
        shared = shared.with("PLATFORM_IDP_RECONCILE", "off");
        shared.default_to("PLATFORM_SUPERADMINS", "admin");
        shared.default_to("PLATFORM_IDP_ADMIN_CLIENT_ID", ADMIN_CLIENT);
        default_secret(&mut shared, "PLATFORM_IDP_ADMIN_CLIENT_SECRET", "idp-admin", secret)?;
    }
    for client in contract::settings::split_list(shared.raw("PLATFORM_SERVICE_CLIENTS").unwrap_or_default()) {
        let variable = format!("PLATFORM_SERVICE_CLIENT_SECRET_{}", env_name(&client));
        // The provider's own check refuses an id that is not a file name.
        if is_file_name(&client) {
            default_secret(&mut shared, &variable, &format!("client-{client}"), secret)?;
        }
    }
    Ok(shared)
}

/// Sets a kept secret unless the operator chose one. An unused secret is never created: after a restore it could be
/// mistaken for the one in use.
fn default_secret(
    shared: &mut Settings,
    variable: &str,
    kept: &str,
    secret: &impl Fn(&str) -> Result<String, Stop>,
) -> Result<(), Stop> {
    if !shared.is_set(variable) {
        shared.default_to(variable, secret(kept)?);
    }
    Ok(())
}

fn is_file_name(client: &str) -> bool {
    client.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

fn database_address(config: &UpConfig) -> Result<(String, u16, String), Stop> {
    let Some(url) = &config.database_url else {
        return Ok((database::embedded_host(&config.data_dir), config.postgres_port, "platform".to_owned()));
    };
    let owner = database::parse_url(url)?;
    let name = owner.get_database().unwrap_or_default().to_owned();
    Ok((owner.get_host().to_owned(), owner.get_port(), name))
}

fn configure(shared: &Settings, config: &UpConfig) -> (Vec<Planned>, Vec<Problem>) {
    let mut reader = shared.reader();
    let (mut servers, mut problems) = (Vec::new(), Vec::new());
    for part in catalog::parts().into_iter().filter(|part| runs(part, config)) {
        match (part.configure)(shared) {
            Ok(start) => {
                servers.push(Planned { name: part.name, port: offset_port(&mut reader, part.port), start });
            }
            Err(found) => problems.extend(found.0),
        }
    }
    (servers, problems)
}

/// Refuses a first start on the built-in provider if no account in the settings is a superadmin. No other accounts
/// exist yet, so the start would wait forever.
fn nobody_to_administer(shared: &Settings, config: &UpConfig) -> Option<Problem> {
    let is_first = config.database_url.is_none() && config.data_dir.join("pg").symlink_metadata().is_err();
    if config.idp_url.is_some() || !is_first {
        return None;
    }
    let list = |name| {
        let mut reader = shared.reader();
        all().get(name).map(|variable| reader.list(variable)).unwrap_or_default()
    };
    let users = list("PLATFORM_DEV_USERS").into_iter();
    let users: Vec<String> = users.filter_map(|user| Some(user.split_once(':')?.0.to_lowercase())).collect();
    let clients = list("PLATFORM_SERVICE_CLIENTS").into_iter();
    let accounts: BTreeSet<String> =
        clients.map(|client| format!("service-account-{client}")).chain(users.iter().cloned()).collect();
    let named = list("PLATFORM_SUPERADMINS");
    if named.iter().any(|name| accounts.contains(&name.to_lowercase())) {
        return None;
    }
    let message = format!(
        "\"{}\" names no account of this first start: choose from PLATFORM_DEV_USERS ({})",
        named.join(", "),
        users.join(", ")
    );
    Some(Problem { name: "PLATFORM_SUPERADMINS".to_owned(), message })
}

/// The number of connections of one service, for its requests and its workers.
fn pool_size(shared: &Settings) -> u32 {
    let mut reader = shared.reader();
    let mut size = |name| {
        let size = all().get(name).map(|variable| reader.integer(variable, 1)).unwrap_or_default();
        u32::try_from(size).unwrap_or(u32::MAX)
    };
    size("PLATFORM_DB_POOL_MAX").saturating_add(size("PLATFORM_DB_WORKER_POOL_MAX"))
}

/// Removes duplicates: all servers that read the same variable report the same problem.
fn unique(problems: Vec<Problem>) -> Vec<Problem> {
    let by_text = problems.into_iter().map(|problem| (problem.to_string(), problem));
    by_text.collect::<BTreeMap<_, _>>().into_values().collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Which kept secrets a plan asks for.
    fn asked(settings: &Settings) -> BTreeSet<String> {
        let asked = RefCell::new(BTreeSet::new());
        let settings = settings.clone().with("PLATFORM_SERVICE_CLIENTS", "crm");
        let config = UpConfig::read(&settings).expect("good settings");
        let certified = settings.with("PLATFORM_TLS_CERT", "a.pem").with("PLATFORM_TLS_KEY", "a.key");
        let plan = Plan::make(&certified, &config, |name| {
            asked.borrow_mut().insert(name.to_owned());
            crate::secrets::random()
        });
        plan.expect("a plan");
        asked.into_inner()
    }

    #[test]
    fn a_secret_that_the_operator_chose_is_not_made() {
        let chosen = [
            (sealed::KEYS.name, SEALING_KEYS),
            (operator::TOKEN.name, OPERATOR),
            ("PLATFORM_IDP_ADMIN_CLIENT_SECRET", "idp-admin"),
            ("PLATFORM_SERVICE_CLIENT_SECRET_CRM", "client-crm"),
        ];
        let without = asked(&Settings::default());
        for (variable, kept) in chosen {
            assert!(without.contains(kept), "control: {kept} is made where {variable} is not set");
            let secret = crate::secrets::random().expect("randomness");
            let with = asked(&Settings::default().with(variable, secret));
            assert!(!with.contains(kept), "{variable} is set");
        }
    }
}
