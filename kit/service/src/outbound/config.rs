//! Operator configuration of outbound calls.

use std::collections::BTreeSet;
use std::net::IpAddr;

use contract::settings::Kind;
use contract::{Reader, Variable, ports};
use ipnet::IpNet;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::ServiceConfig;
use crate::config::offset_port;

const ALLOW_HTTP: Variable = Variable::new(
    "PLATFORM_OUTBOUND_ALLOW_HTTP",
    Kind::Flag,
    Some("false"),
    "Whether addresses that users give, of webhooks for example, may be http:// besides https://",
);
const ALLOW_NETWORKS: Variable = Variable::new(
    "PLATFORM_OUTBOUND_ALLOW_NETWORKS",
    Kind::List,
    None,
    "Networks such as 10.20.0.0/16 that addresses given by users may lead to although they are not public; never the platform's own ports, cloud metadata or multicast",
);
const CA: Variable = Variable::new(
    "PLATFORM_OUTBOUND_CA",
    Kind::Path,
    None,
    "PEM file of the authorities that calls to addresses given by users trust besides the public ones",
);

/// The variables of every service that calls user-given addresses.
pub const VARIABLES: &[Variable] = &[ALLOW_HTTP, ALLOW_NETWORKS, CA];

/// Most networks in a list; each address is compared with every one.
pub const MAX_NETWORKS: usize = 64;

/// What the operator allows. The default allows only public `https` targets.
#[derive(Clone, Debug, Default)]
pub struct OutboundConfig {
    /// `PLATFORM_OUTBOUND_ALLOW_HTTP`.
    pub allow_http: bool,
    /// `PLATFORM_OUTBOUND_ALLOW_NETWORKS`.
    pub allowed: Vec<IpNet>,
    /// The certificates in `PLATFORM_OUTBOUND_CA`.
    pub authorities: Vec<CertificateDer<'static>>,
    /// Ports that are refused inside allowed networks: the platform's own listeners, some of which require no bearer,
    /// and the database's.
    pub own_ports: BTreeSet<u16>,
}

impl OutboundConfig {
    /// Reads the variables for a service.
    pub fn read(reader: &mut Reader<'_>, service: &ServiceConfig) -> Self {
        let shift = offset_port(reader, ports::EDGE).saturating_sub(ports::EDGE);
        let own = ports::INTERNAL.chain([ports::EDGE]).map(|port| port.saturating_add(shift));
        let own_ports = own.chain([service.listen.1, service.database.port]).collect();
        Self {
            allow_http: reader.flag(&ALLOW_HTTP),
            allowed: networks(reader, &ALLOW_NETWORKS),
            authorities: authorities(reader, &CA),
            own_ports,
        }
    }

    /// Adds what one service allows by its own variables.
    #[must_use]
    pub fn allowing(mut self, allow_http: bool, networks: Vec<IpNet>) -> Self {
        self.allow_http |= allow_http;
        self.allowed.extend(networks);
        self
    }
}

/// The networks that a variable lists, at most [`MAX_NETWORKS`].
pub fn networks(reader: &mut Reader<'_>, variable: &Variable) -> Vec<IpNet> {
    let listed = reader.list(variable);
    if listed.len() > MAX_NETWORKS {
        reader.refuse(variable.name, format!("at most {MAX_NETWORKS} networks"));
    }
    let mut networks = Vec::new();
    for text in listed {
        match network(&text) {
            Some(network) => networks.push(network),
            None => reader.refuse(
                variable.name,
                format!("\"{text}\" is not a network such as 10.20.0.0/16, 192.0.2.7 or fd12:3456::/32"),
            ),
        }
    }
    networks
}

/// Parses a network without bits beyond its prefix, or one address. Refuses IPv4-mapped ones, because no address would
/// ever be compared with them.
fn network(text: &str) -> Option<IpNet> {
    let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).ok()?;
    let is_mapped = matches!(network.addr(), IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
    (network.addr() == network.network() && !is_mapped).then_some(network)
}

/// The certificates in the PEM file that a variable names; empty when it is not set.
pub fn authorities(reader: &mut Reader<'_>, variable: &Variable) -> Vec<CertificateDer<'static>> {
    let Some(path) = reader.optional(variable) else { return Vec::new() };
    let read = CertificateDer::pem_file_iter(&path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let problem = match read {
        Ok(found) if !found.is_empty() => return found,
        Ok(_) => "holds no PEM certificate".to_owned(),
        Err(error) => format!("cannot be read: {error}"),
    };
    reader.refuse(variable.name, format!("\"{path}\" {problem}"));
    Vec::new()
}

#[cfg(test)]
mod tests {
    use contract::Settings;

    use super::*;
    use crate::layers::Limits;

    fn read(settings: Settings) -> Result<OutboundConfig, String> {
        let settings = settings
            .with("PLATFORM_DOCS_DB_PORT", "5433")
            .with("PLATFORM_DOCS_DB_NAME", "platform")
            .with("PLATFORM_DOCS_DB_PASSWORD", "x")
            .with("IDP_JWKS_URL", "http://127.0.0.1:8190/certs")
            .with("IDP_ISSUER_URL", "https://localhost:8443/realms/platform");
        let mut reader = settings.reader();
        let service = ServiceConfig::read(&mut reader, "docs", 9170, Limits::MODULE);
        let config = OutboundConfig::read(&mut reader, &service);
        reader.finish(config).map_err(|problems| problems.to_string())
    }

    #[test]
    fn without_a_word_of_the_operators_only_public_https_is_allowed() {
        let config = read(Settings::default()).expect("read");
        assert!(!config.allow_http && config.allowed.is_empty() && config.authorities.is_empty());
    }

    #[test]
    fn networks_have_no_bits_beyond_their_prefix_and_are_64_at_most() {
        let networks = |text: &str| read(Settings::default().with(ALLOW_NETWORKS.name, text));
        let config = networks("10.20.0.0/16, 192.0.2.7,fd12:3456::/32, ::1").expect("read");
        let shown: Vec<String> = config.allowed.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["10.20.0.0/16", "192.0.2.7/32", "fd12:3456::/32", "::1/128"]);
        for bad in
            ["10.20.0.1/16", "10.0.0.0/33", "10.0.0", "localhost", "::ffff:10.0.0.0/104", "fe80::1%eth0", "*"]
        {
            let problem = networks(bad).expect_err(bad);
            assert!(
                problem.starts_with("PLATFORM_OUTBOUND_ALLOW_NETWORKS: ") && problem.contains(bad),
                "{problem}"
            );
        }
        assert!(networks(&["10.0.0.0/8"; 64].join(",")).is_ok());
        assert!(networks(&["10.0.0.0/8"; 65].join(",")).expect_err("too many").contains("at most 64"));
    }

    #[test]
    fn the_platforms_own_ports_move_with_its_offset() {
        let own = |offset: &str| {
            read(Settings::default().with("PLATFORM_PORT_OFFSET", offset)).expect("read").own_ports
        };
        let ports: Vec<u16> =
            [ports::EDGE, ports::EDGE_PLAIN, ports::ORG, ports::IDP, ports::POSTGRES, 8180].to_vec();
        assert!(ports.iter().chain(&[9170, 5433]).all(|port| own("0").contains(port)));
        assert!(ports.iter().all(|port| own("1000").contains(&(port + 1000)) && !own("1000").contains(port)));
        let taken = ports::TAKEN.iter().all(|(port, _)| own("0").contains(port));
        assert!(taken, "every listener of the platform");
    }

    #[test]
    fn other_bad_values_are_refused_by_name() {
        let problem = |name: &str, value: &str| read(Settings::default().with(name, value)).expect_err(value);
        assert!(problem(ALLOW_HTTP.name, "yes").contains("\"yes\" is not true or false"));
        assert!(problem(CA.name, "/nowhere/ca.pem").contains("/nowhere/ca.pem"));
        let no_pem = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert!(problem(CA.name, no_pem).contains("holds no PEM certificate"));
    }
}
