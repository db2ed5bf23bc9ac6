//! Bytes to requests and back: listeners, TLS, the HTTP server sides, and the only dialler of upstreams. Nothing here
//! knows a route, a caller or a code.

pub(crate) mod activity;
pub(crate) mod addresses;
pub(crate) mod admission;
pub(crate) mod alarm;
mod allowance;
pub(crate) mod body;
pub(crate) mod connection;
pub(crate) mod credit;
pub(crate) mod dates;
pub(crate) mod drain;
pub(crate) mod evictions;
mod frames;
pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod h2c;
pub(crate) mod headers;
mod hello;
pub(crate) mod incoming;
mod informing;
mod lasting;
pub(crate) mod listen;
mod pieces;
pub(crate) mod place;
pub(crate) mod pool;
pub(crate) mod proxy;
mod records;
mod sending;
pub(crate) mod share;
pub(crate) mod socket;
pub(crate) mod spelling;
pub(crate) mod tls;
pub(crate) mod trailers;
pub(crate) mod trust;
mod tunnel;
pub(crate) mod upload;
pub(crate) mod upstream;
pub(crate) mod writes;

/// Where an upstream listens. The host is bare, without the brackets of a URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Authority {
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Authority {
    pub(crate) fn new(host: String, port: u16) -> Self {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).map(ToOwned::to_owned);
        Self { host: bare.unwrap_or(host), port }
    }

    /// As it stands in a `Host` header.
    pub(crate) fn host_header(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}
