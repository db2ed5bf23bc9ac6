//! Every variable of the gateway, with its default and the reason for it.

use contract::Variable;
use contract::settings::Kind;

use crate::config::{hosts, rates, tls, upgrades};

/// PEM file of the certificate chain.
pub const TLS_CERT: Variable =
    Variable::new("PLATFORM_TLS_CERT", Kind::Path, None, "PEM file of the edge's certificate chain");
/// PEM file of the private key.
pub const TLS_KEY: Variable =
    Variable::new("PLATFORM_TLS_KEY", Kind::Path, None, "PEM file of the edge's private key");
pub(super) const DOMAIN: Variable = Variable::new(
    "PLATFORM_DOMAIN",
    Kind::Text,
    None,
    "Public host or host:port; default localhost and the edge's port",
);
pub(super) const EXTRA_ORIGINS: Variable = Variable::new(
    "PLATFORM_EXTRA_ORIGINS",
    Kind::List,
    None,
    "Further web origins that may call the API and log in",
);
pub(super) const TRUSTED_PROXIES: Variable = Variable::new(
    "PLATFORM_TRUSTED_PROXIES",
    Kind::List,
    None,
    "Networks (CIDR) whose X-Forwarded headers are believed",
);
pub(super) const PORT_OFFSET: Variable = Variable::new(
    "PLATFORM_PORT_OFFSET",
    Kind::Integer,
    Some("0"),
    "Added to every port, so that copies run side by side",
);
pub(super) const COMMIT: Variable =
    Variable::new("PLATFORM_COMMIT", Kind::Text, Some("unknown"), "Commit shown in platform_build_info");
pub(super) const PROXY_PROTOCOL: Variable = Variable::new(
    "PLATFORM_PROXY_PROTOCOL",
    Kind::List,
    None,
    "Networks (CIDR) whose connections begin with a PROXY header of version 2; unset: none",
);
// A balancer that probes /readyz every few seconds needs 5 s to stop sending connections.
pub(super) const DRAIN_MIN: Variable = Variable::new(
    "PLATFORM_DRAIN_MIN",
    Kind::Duration,
    Some("0s"),
    "How long a stop still lets new connections in, while /readyz says no",
);
pub(super) const WORKERS: Variable = Variable::new(
    "PLATFORM_GATEWAY_WORKERS",
    Kind::Integer,
    None,
    "Threads that serve requests, 1 to 1024; default one a core",
);
pub(super) const UPSTREAM_CA: Variable = Variable::new(
    "PLATFORM_GATEWAY_UPSTREAM_CA",
    Kind::Path,
    None,
    "PEM file of the authorities that sign https:// modules; default the system's",
);
pub(super) const DRAIN_TIMEOUT: Variable = Variable::new(
    "PLATFORM_DRAIN_TIMEOUT",
    Kind::Duration,
    Some("10s"),
    "How long requests in flight may finish at a stop",
);

pub(super) const REGISTRY_URL: Variable = Variable::new(
    "PLATFORM_REGISTRY_BASE_URL",
    Kind::Url,
    None,
    "Address of registry; default its port on loopback",
);
pub(super) const IDENTITY_URL: Variable = Variable::new(
    "PLATFORM_IDENTITY_BASE_URL",
    Kind::Url,
    None,
    "Address of identity; default its port on loopback",
);
pub(super) const ORG_URL: Variable =
    Variable::new("PLATFORM_ORG_BASE_URL", Kind::Url, None, "Address of org; default its port on loopback");
pub(super) const AUTHZ_URL: Variable = Variable::new(
    "PLATFORM_AUTHZ_BASE_URL",
    Kind::Url,
    None,
    "Address of authz; default its port on loopback",
);
pub(super) const IDP_URL: Variable = Variable::new(
    "PLATFORM_IDP_URL",
    Kind::Url,
    None,
    "Address of the identity provider; default the built-in one's port",
);
pub(super) const MODULE_HOST: Variable = Variable::new(
    "PLATFORM_MODULE_HOST_<KEY>",
    Kind::Text,
    None,
    "Hosts of one module with commas: host or host:port, h2c:// or https:// before it; default loopback",
);
/// The prefix of [`MODULE_HOST`]'s variables.
pub(super) const MODULE_HOST_PREFIX: &str = "PLATFORM_MODULE_HOST_";

pub(super) const DIAL_TIMEOUT: Variable = Variable::new(
    "PLATFORM_MODULE_DIAL_TIMEOUT",
    Kind::Duration,
    Some("2s"),
    "Longest wait for a connection to an upstream; at least 100ms",
);
pub(super) const RESPONSE_HEADER_TIMEOUT: Variable = Variable::new(
    "PLATFORM_MODULE_RESPONSE_HEADER_TIMEOUT",
    Kind::Duration,
    Some("5s"),
    "Longest wait for the first byte of an answer once the request is sent; at least 100ms",
);
// A client or upstream that moves nothing for this long before the first byte is gone.
pub(super) const BODY_IDLE: Variable = Variable::new(
    "PLATFORM_GATEWAY_BODY_IDLE",
    Kind::Duration,
    Some("30s"),
    "Longest pause in a request body; at least 100ms",
);
// Long enough for server-sent events that send a heartbeat every few minutes.
pub(super) const STREAM_IDLE: Variable = Variable::new(
    "PLATFORM_GATEWAY_STREAM_IDLE",
    Kind::Duration,
    Some("300s"),
    "Longest pause in an answer's body, and in a tunnel such as a WebSocket; at least 100ms",
);
// Less than the 75 s of the services, so that the pool closes first and no request meets a closing connection.
pub(super) const POOL_IDLE: Variable = Variable::new(
    "PLATFORM_GATEWAY_POOL_IDLE",
    Kind::Duration,
    Some("30s"),
    "How long an idle upstream connection is kept; at least 100ms",
);
pub(super) const UPSTREAM_CONCURRENCY: Variable = Variable::new(
    "PLATFORM_GATEWAY_UPSTREAM_CONCURRENCY",
    Kind::Integer,
    Some("1024"),
    "Most requests in flight to one upstream, and most that wait for their turn",
);

// Four clients at their limits exhaust an upstream; one alone never can.
pub(super) const CLIENT_SHARE: Variable = Variable::new(
    "PLATFORM_GATEWAY_CLIENT_SHARE",
    Kind::Integer,
    Some("25"),
    "Per cent (1 to 100) of an upstream's requests at once, of its queue and of all tunnels that one subject, or one address without a token, may have; never fewer than 8 of them",
);
// A phone on a bad connection moves ten times as much.
pub(super) const MIN_RATE: Variable = Variable::new(
    "PLATFORM_GATEWAY_MIN_RATE",
    Kind::Size,
    Some("512B"),
    "Bytes a second that a client sends of a body, or takes of an answer, at least; cut off when 10 s and the grace behind; 0: any rate",
);
// With the 10 s over which the rate is measured, the longest pause in a request body.
pub(super) const MIN_RATE_GRACE: Variable = Variable::new(
    "PLATFORM_GATEWAY_MIN_RATE_GRACE",
    Kind::Duration,
    Some("20s"),
    "How long a client may move nothing before its rate counts",
);

// Far above an honest head (a cookie jar and a token), small enough to hold for every connection.
pub(super) const MAX_HEADER_BYTES: Variable = Variable::new(
    "PLATFORM_GATEWAY_MAX_HEADER_BYTES",
    Kind::Size,
    Some("60KiB"),
    "Largest header block, counted as HTTP/2 counts it: the bytes of names and values and 32 more for each field; at least 1KiB",
);
pub(super) const MAX_HEADERS: Variable = Variable::new(
    "PLATFORM_GATEWAY_MAX_HEADERS",
    Kind::Integer,
    Some("100"),
    "Most headers of a request; at least 16",
);
pub(super) const MAX_URI: Variable = Variable::new(
    "PLATFORM_GATEWAY_MAX_URI",
    Kind::Size,
    Some("16KiB"),
    "Longest path and query; at least 1KiB",
);
pub(super) const MAX_BODY: Variable = Variable::new(
    "PLATFORM_GATEWAY_MAX_BODY",
    Kind::Size,
    Some("1MiB"),
    "Largest body to a foundation route; at least 1KiB",
);
pub(super) const MODULE_MAX_BODY: Variable = Variable::new(
    "PLATFORM_MODULE_MAX_BODY",
    Kind::Size,
    None,
    "Largest body to a module, at least 1KiB; unset: the modules' own limits",
);
pub(super) const HEADER_TIMEOUT: Variable = Variable::new(
    "PLATFORM_GATEWAY_HEADER_TIMEOUT",
    Kind::Duration,
    Some("10s"),
    "Longest wait for a connection's first byte and for a whole request head; at least 100ms",
);
pub(super) const TLS_TIMEOUT: Variable = Variable::new(
    "PLATFORM_GATEWAY_TLS_TIMEOUT",
    Kind::Duration,
    Some("10s"),
    "Longest TLS handshake; at least 100ms",
);
pub(super) const KEEP_ALIVE: Variable = Variable::new(
    "PLATFORM_GATEWAY_KEEP_ALIVE",
    Kind::Duration,
    Some("75s"),
    "How long a connection without a request is kept; at least 100ms",
);
pub(super) const MAX_STREAMS: Variable = Variable::new(
    "PLATFORM_GATEWAY_MAX_STREAMS",
    Kind::Integer,
    Some("256"),
    "Most streams of one HTTP/2 connection",
);
pub(super) const MAX_CONNECTIONS: Variable = Variable::new(
    "PLATFORM_GATEWAY_MAX_CONNECTIONS",
    Kind::Integer,
    Some("10000"),
    "Most connections; past it accepting waits",
);
// More than an office behind one address has open; far fewer than the total. Behind a balancer every client has its
// address.
pub(super) const MAX_CONNECTIONS_PER_ADDRESS: Variable = Variable::new(
    "PLATFORM_GATEWAY_MAX_CONNECTIONS_PER_ADDRESS",
    Kind::Integer,
    None,
    "Most connections of one client address (IPv6: of a /64), 0 for no limit; default 1000, and none where PLATFORM_TRUSTED_PROXIES or PLATFORM_PROXY_PROTOCOL is set",
);
pub(super) const MAX_HANDSHAKES: Variable = Variable::new(
    "PLATFORM_GATEWAY_MAX_HANDSHAKES",
    Kind::Integer,
    Some("1024"),
    "Most TLS handshakes at once; half of the places are kept for the first of an address, and one has a quarter of all at most",
);
// Each holds two connections and up to 32 KiB.
pub(super) const MAX_TUNNELS: Variable = Variable::new(
    "PLATFORM_GATEWAY_MAX_TUNNELS",
    Kind::Integer,
    Some("2048"),
    "Most WebSockets and other tunnels; answers that last longer than 10 s are counted among them while there is room",
);

/// The gateway's own variables; those of token verification are in [`bearer::VARIABLES`].
pub const VARIABLES: &[Variable] = &[
    TLS_CERT,
    TLS_KEY,
    DOMAIN,
    EXTRA_ORIGINS,
    TRUSTED_PROXIES,
    PORT_OFFSET,
    COMMIT,
    PROXY_PROTOCOL,
    DRAIN_MIN,
    DRAIN_TIMEOUT,
    WORKERS,
    UPSTREAM_CA,
    REGISTRY_URL,
    IDENTITY_URL,
    ORG_URL,
    AUTHZ_URL,
    IDP_URL,
    MODULE_HOST,
    DIAL_TIMEOUT,
    RESPONSE_HEADER_TIMEOUT,
    BODY_IDLE,
    STREAM_IDLE,
    POOL_IDLE,
    UPSTREAM_CONCURRENCY,
    CLIENT_SHARE,
    MIN_RATE,
    MIN_RATE_GRACE,
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    MAX_URI,
    MAX_BODY,
    MODULE_MAX_BODY,
    HEADER_TIMEOUT,
    TLS_TIMEOUT,
    KEEP_ALIVE,
    MAX_STREAMS,
    MAX_CONNECTIONS,
    MAX_CONNECTIONS_PER_ADDRESS,
    MAX_HANDSHAKES,
    MAX_TUNNELS,
    tls::TLS_PAIRS,
    tls::TLS_CLIENT_CA,
    tls::TLS_CLIENT_REQUIRED,
    rates::RATE_LIMIT,
    rates::RATE_LIMIT_ANONYMOUS,
    upgrades::UPGRADES,
    hosts::STRICT_HOST,
];
