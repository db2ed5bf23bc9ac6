//! The ports of the platform's listeners (module contract, "Metrics"; `PLATFORM_PORT_OFFSET` shifts them all).

use std::ops::RangeInclusive;

use crate::settings::{Kind, Reader, Variable};

/// Shifts every port.
pub const PORT_OFFSET: Variable = Variable::new(
    "PLATFORM_PORT_OFFSET",
    Kind::Integer,
    Some("0"),
    "Added to every port, so that copies run side by side",
);

/// The gateway's TLS listener.
pub const EDGE: u16 = 8443;
/// The gateway's plain-text listener, behind a balancer that terminates TLS.
pub const EDGE_PLAIN: u16 = 8090;
/// registry.
pub const REGISTRY: u16 = 8110;
/// identity.
pub const IDENTITY: u16 = 8120;
/// org.
pub const ORG: u16 = 8130;
/// authz.
pub const AUTHZ: u16 = 8140;
/// The built-in identity provider.
pub const IDP: u16 = 8190;
/// The embedded database.
pub const POSTGRES: u16 = 8191;

/// The range of internal listeners, the modules and the database: from the gateway's plain-text port to the ports of
/// new modules.
pub const INTERNAL: RangeInclusive<u16> = 8090..=8299;

/// Every listener that is not a module's, with its owner: no module may use its port.
pub const TAKEN: [(u16, &str); 8] = [
    (EDGE, "the edge"),
    (EDGE_PLAIN, "the edge"),
    (REGISTRY, "registry"),
    (IDENTITY, "identity"),
    (ORG, "org"),
    (AUTHZ, "authz"),
    (IDP, "the built-in identity provider"),
    (POSTGRES, "the embedded database"),
];

/// The actual port of a listener whose fixed port is `port`, under `PLATFORM_PORT_OFFSET`.
pub fn offset_port(reader: &mut Reader<'_>, port: u16) -> u16 {
    let offset = reader.integer(&PORT_OFFSET, 0);
    let shifted = u16::try_from(offset).ok().and_then(|offset| port.checked_add(offset));
    shifted.unwrap_or_else(|| {
        reader.refuse(PORT_OFFSET.name, format!("\"{offset}\" moves port {port} past 65535"));
        port
    })
}
