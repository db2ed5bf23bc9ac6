//! The protocols to which a client may upgrade.

use contract::settings::Kind;
use contract::{Reader, Variable};
use http::HeaderValue;

pub(super) const UPGRADES: Variable = Variable::new(
    "PLATFORM_GATEWAY_UPGRADES",
    Kind::List,
    None,
    "Protocols that clients may upgrade to besides websocket; never HTTP, TLS or a proxy's CONNECT",
);

/// Prefixes of names that cannot be added. Another version of HTTP, or HTTP inside TLS, would carry requests past every
/// check of the gateway; `connect` and its relatives (RFC 9298, RFC 9484) let the client choose the destination.
const NEVER: [&str; 6] = ["h2", "h3", "http", "tls", "ssl", "connect"];

/// The protocols that may be tunnelled, in lower case.
#[derive(Clone, Debug)]
pub(crate) struct Upgrades(Vec<HeaderValue>);

impl Upgrades {
    pub(super) fn read(reader: &mut Reader<'_>) -> Self {
        let mut allowed = Self::default();
        for text in reader.list(&UPGRADES) {
            match protocol(&text) {
                Some(name) => allowed.0.push(name),
                None => reader.refuse(
                    UPGRADES.name,
                    format!(
                        "\"{text}\" is not a protocol such as websocket or name/1, or is one that is never \
                         tunnelled (HTTP, TLS, CONNECT); each is named on its own"
                    ),
                ),
            }
        }
        allowed
    }

    /// The allowed protocol with this name, ignoring case.
    pub(crate) fn find(&self, name: &[u8]) -> Option<&HeaderValue> {
        self.0.iter().find(|allowed| allowed.as_bytes().eq_ignore_ascii_case(name))
    }
}

impl Default for Upgrades {
    fn default() -> Self {
        Self(vec![HeaderValue::from_static("websocket")])
    }
}

/// Parses a protocol name with an optional version (RFC 9110, 7.8) that may be tunnelled. `*` is a token character, but
/// users would mean it as a wildcard, so it is refused.
fn protocol(text: &str) -> Option<HeaderValue> {
    let text = text.to_ascii_lowercase();
    let mut parts = text.splitn(2, '/');
    let fits =
        parts.all(is_token) && !text.contains('*') && !NEVER.iter().any(|begin| text.starts_with(begin));
    HeaderValue::try_from(text).ok().filter(|_| fits)
}

fn is_token(text: &str) -> bool {
    let of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(of_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_protocol_is_a_token_with_or_without_a_version_and_never_another_http() {
        for name in ["websocket", "WebSocket", "irc/6.9", "x-rpc", "hypertext"] {
            let expected = name.to_ascii_lowercase();
            assert_eq!(protocol(name).expect(name), expected.as_str());
        }
        for name in [
            "h2c",
            "H2",
            "h3-29",
            "http",
            "HTTP/2.0",
            "http/*",
            "TLS/1.2",
            "tls*",
            "*",
            "web*",
            "irc/*",
            "ssl",
            "connect-udp",
            "Connect-IP",
            "connect",
            "",
            "/1",
            "a/",
            "a/b/c",
            "a b",
            "a\"",
            "ü",
        ] {
            assert_eq!(protocol(name), None, "{name}");
        }
    }
}
