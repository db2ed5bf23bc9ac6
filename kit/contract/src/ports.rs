//! The listeners of the platform (module contract, "Metrics"; `PLATFORM_PORT_OFFSET` shifts every one).

use std::ops::RangeInclusive;

use crate::settings::{Kind, Reader, Variable};

/// Moves every port.
pub const PORT_OFFSET: Variable = Variable::new(
    "PLATFORM_PORT_OFFSET",
    Kind::Integer,
    Some("0"),
    "Added to every port, so that copies run side by side",
);

/// The TLS edge.
pub const EDGE: u16 = 8443;
/// The edge without TLS, for a balancer that ends TLS.
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

/// Where the internal listeners, the modules' and the database's are: from the edge's plain one to what new modules are given.
pub const INTERNAL: RangeInclusive<u16> = 8090..=8299;

/// Every listener that is not a module's, and whose it is: no module may have its port.
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

/// The port that a listener of fixed port `port` has under `PLATFORM_PORT_OFFSET`.
pub fn offset_port(reader: &mut Reader<'_>, port: u16) -> u16 {
    let offset = reader.integer(&PORT_OFFSET, 0);
    let shifted = u16::try_from(offset).ok().and_then(|offset| port.checked_add(offset));
    shifted.unwrap_or_else(|| {
        reader.refuse(PORT_OFFSET.name, format!("\"{offset}\" moves port {port} past 65535"));
        port
    })
}
