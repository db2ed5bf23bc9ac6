//! The listeners of the platform (module contract, "Metrics"; `PLATFORM_PORT_OFFSET` shifts every one).

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
