//! The address of an upstream.

/// The address of an upstream. The host is bare, without the brackets of a URL.
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

    /// The address as written in a `Host` header.
    pub(crate) fn host_header(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}
