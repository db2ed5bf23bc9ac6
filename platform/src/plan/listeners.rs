//! Binds every listening socket before anything is served. A busy port fails the start with an error that names its
//! variable.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};

use contract::{Reader, Settings};
use edge::{EDGE_ADDR, EDGE_PLAIN_ADDR, ListenAddresses};
use tokio::net::TcpListener;

use super::Plan;
use crate::console;
use crate::stop::Stop;
use crate::variables::all;

/// What to do about a port that cannot be bound.
const ADVICE: [(ErrorKind, &str); 3] = [
    (
        ErrorKind::AddrInUse,
        "is in use by another program: stop that program (`ss -ltnp` or `lsof -i` names it), or set another value; \
         PLATFORM_PORT_OFFSET=1000 moves every port of the platform",
    ),
    (ErrorKind::PermissionDenied, "may not be used by this account: set another value"),
    (ErrorKind::AddrNotAvailable, "is not an address of this machine: set another value"),
];

/// The gateway's sockets.
pub(crate) struct EdgeListeners {
    pub(crate) tls: TcpListener,
    pub(crate) plain: Option<TcpListener>,
}

/// All sockets of a run.
pub(crate) struct Listeners {
    pub(crate) edge: EdgeListeners,
    /// In the order of the plan's servers.
    pub(crate) services: Vec<TcpListener>,
}

impl Listeners {
    /// Binds what the plan names.
    pub(crate) async fn bind(plan: &Plan) -> Result<Self, Stop> {
        let edge = EdgeListeners::bind(&plan.edge_addresses).await?;
        let mut services = Vec::new();
        for server in &plan.servers {
            services.push(bind_service(&plan.listen, server.port, server.name).await?);
        }
        Ok(Self { edge, services })
    }
}

impl EdgeListeners {
    /// Takes the sockets that were handed over and binds the others; without a plain address, only the TLS socket.
    pub(crate) async fn bind(addresses: &ListenAddresses) -> Result<Self, Stop> {
        let handed = edge::handed_over().map_err(|error| {
            Stop::Unfit(format!("LISTEN_FDS: the sockets handed over cannot be used: {error}"))
        })?;
        let tls = match handed.tls {
            Some(socket) => socket,
            None => bind(addresses.tls, EDGE_ADDR.name, "the gateway").await?,
        };
        let plain = match addresses.plain {
            Some(_) if handed.plain.is_some() => handed.plain,
            Some(address) => Some(bind(address, EDGE_PLAIN_ADDR.name, "the gateway without TLS").await?),
            None => None,
        };
        Ok(Self { tls, plain })
    }
}

/// Binds the internal listener of one service.
pub(crate) async fn bind_service(host: &IpAddr, port: u16, name: &str) -> Result<TcpListener, Stop> {
    let variable = if host.is_loopback() { "PLATFORM_PORT_OFFSET" } else { "PLATFORM_LISTEN_ADDR" };
    let listener = bind(SocketAddr::new(*host, port), variable, name).await?;
    if let Some(warning) = exposed(host, port, name) {
        console::say(&warning);
    }
    Ok(listener)
}

/// The warning for an internal listener that other machines may reach.
fn exposed(host: &IpAddr, port: u16, name: &str) -> Option<String> {
    (!host.is_loopback()).then(|| {
        format!(
            "platform: warning: {name} listens on {} (PLATFORM_LISTEN_ADDR), which other machines may reach: let only the \
             platform's own through to it",
            SocketAddr::new(*host, port)
        )
    })
}

/// The host of internal listeners.
pub(crate) fn listen_host(settings: &Settings) -> Result<IpAddr, Stop> {
    let mut reader = settings.reader();
    let host = read_listen_host(&mut reader);
    reader.finish(host).map_err(Stop::from)
}

/// Reads the host of internal listeners; the default if the value is invalid.
pub(super) fn read_listen_host(reader: &mut Reader<'_>) -> IpAddr {
    let loopback = IpAddr::from([127, 0, 0, 1]);
    let variable = all().get("PLATFORM_LISTEN_ADDR").copied();
    let parse = |text: &str| text.parse::<IpAddr>().ok();
    let host =
        variable.and_then(|variable| reader.parsed(&variable, parse, "an IP address such as 127.0.0.1"));
    host.unwrap_or(loopback)
}

async fn bind(address: SocketAddr, variable: &str, whose: &str) -> Result<TcpListener, Stop> {
    TcpListener::bind(address).await.map_err(|error| {
        let known = ADVICE.iter().find(|(kind, _)| *kind == error.kind());
        let says = known.map_or_else(|| format!("cannot be used: {error}"), |(_, says)| (*says).to_owned());
        Stop::Unfit(format!("{variable}: port {} on {} ({whose}) {says}", address.port(), address.ip()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_past_loopback_is_told_of_and_unasked_there_is_none() {
        let host = listen_host(&Settings::default()).expect("a default");
        assert_eq!(exposed(&host, 8_130, "org"), None, "{host}");
        for (told, shown) in [("0.0.0.0", "0.0.0.0:8130"), ("::", "[::]:8130"), ("10.0.0.1", "10.0.0.1:8130")]
        {
            let settings = Settings::default().with("PLATFORM_LISTEN_ADDR", told);
            let host = listen_host(&settings).expect("an address");
            let warning = exposed(&host, 8_130, "org").expect("a warning");
            assert!(warning.contains("org listens on") && warning.contains(shown), "{warning}");
        }
        for local in ["127.0.0.1", "127.0.0.2", "::1"] {
            assert_eq!(exposed(&local.parse().expect("an address"), 8_130, "org"), None, "{local}");
        }
    }
}
