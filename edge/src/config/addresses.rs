//! The gateway's listen addresses.

use std::net::SocketAddr;

use contract::ports::{self, offset_port};
use contract::settings::{Kind, Problems};
use contract::{Reader, Settings, Variable};

/// The gateway with TLS.
pub const EDGE_ADDR: Variable = Variable::new(
    "PLATFORM_EDGE_ADDR",
    Kind::Address,
    None,
    "Address of the TLS edge; default 127.0.0.1 and port 8443 plus PLATFORM_PORT_OFFSET",
);
/// The gateway without TLS.
pub const EDGE_PLAIN_ADDR: Variable = Variable::new(
    "PLATFORM_EDGE_PLAIN_ADDR",
    Kind::Address,
    None,
    "Address of the edge without TLS, for a balancer that ends TLS; default 127.0.0.1 and port 8090 plus PLATFORM_PORT_OFFSET; empty turns it off",
);

/// The gateway's listeners.
#[derive(Clone, Copy, Debug)]
pub struct ListenAddresses {
    /// With TLS.
    pub tls: SocketAddr,
    /// Without; `None` when it is turned off.
    pub plain: Option<SocketAddr>,
}

impl ListenAddresses {
    /// Reads the addresses. Unset ones get their default port, shifted by `PLATFORM_PORT_OFFSET`.
    ///
    /// # Errors
    /// Every variable with an invalid value.
    pub fn read(settings: &Settings) -> Result<Self, Problems> {
        let mut reader = settings.reader();
        let addresses = Self::read_with(&mut reader);
        reader.finish(addresses)
    }

    /// The same, with the default in place of each invalid value.
    pub fn read_with(reader: &mut Reader<'_>) -> Self {
        let settings = reader.settings();
        let off = settings.is_set(EDGE_PLAIN_ADDR.name) && settings.raw(EDGE_PLAIN_ADDR.name).is_none();
        let tls = address(reader, &EDGE_ADDR, ports::EDGE);
        let plain = (!off).then(|| address(reader, &EDGE_PLAIN_ADDR, ports::EDGE_PLAIN));
        Self { tls, plain }
    }
}

fn address(reader: &mut Reader<'_>, variable: &Variable, port: u16) -> SocketAddr {
    let default = SocketAddr::from(([127, 0, 0, 1], offset_port(reader, port)));
    let parse = |text: &str| text.parse::<SocketAddr>().ok();
    reader.parsed(variable, parse, "an address and port such as 127.0.0.1:8443").unwrap_or(default)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Option<(String, Option<String>)> {
        let settings = variables
            .iter()
            .fold(Settings::default(), |settings, (name, value)| settings.with(*name, *value));
        let found = ListenAddresses::read(&settings).ok()?;
        Some((found.tls.to_string(), found.plain.map(|plain| plain.to_string())))
    }

    fn both(tls: &str, plain: &str) -> (String, Option<String>) {
        (tls.to_owned(), Some(plain.to_owned()))
    }

    #[test]
    fn what_is_not_set_has_its_port_moved_and_an_empty_address_turns_the_plain_listener_off() {
        assert_eq!(read(&[]), Some(both("127.0.0.1:8443", "127.0.0.1:8090")));
        let moved = both("127.0.0.1:8543", "127.0.0.1:8190");
        assert_eq!(read(&[("PLATFORM_PORT_OFFSET", "100")]), Some(moved));
        let set = [("PLATFORM_PORT_OFFSET", "100"), ("PLATFORM_EDGE_ADDR", "0.0.0.0:443")];
        assert_eq!(read(&set), Some(both("0.0.0.0:443", "127.0.0.1:8190")));
        assert_eq!(read(&[("PLATFORM_EDGE_PLAIN_ADDR", "")]), Some(("127.0.0.1:8443".to_owned(), None)));
        for wrong in [("PLATFORM_EDGE_ADDR", "8443"), ("PLATFORM_PORT_OFFSET", "57093")] {
            assert_eq!(read(&[wrong]), None, "{wrong:?}");
        }
    }
}
