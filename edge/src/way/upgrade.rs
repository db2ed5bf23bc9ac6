//! Requests for another protocol: `Upgrade` in HTTP/1.1, extended CONNECT in HTTP/2. The upstream always gets the former;
//! whether it agrees is its own 101. Pure, but for the key that a translated WebSocket needs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use h2::ext::Protocol;
use http::header::{CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{Method, request};
use http_body::Body;
use ring::rand::{SecureRandom, SystemRandom};

use crate::wire::headers::lists;

/// What the client asks for.
#[derive(Clone, Debug)]
pub(crate) struct Upgrade {
    protocol: HeaderValue,
    /// The client's own handshake ended at the edge, so that the upstream's needs a key.
    translated: bool,
}

/// The protocol that a request asks for, when nothing of a body stands in its way.
pub(crate) fn asked_for(parts: &request::Parts, body: &impl Body) -> Option<Upgrade> {
    if parts.method == Method::CONNECT {
        let protocol = parts.extensions.get::<Protocol>()?;
        let protocol = HeaderValue::from_str(protocol.as_str()).ok()?;
        return Some(Upgrade { protocol, translated: true });
    }
    let nominated = lists(&parts.headers, &CONNECTION, "upgrade");
    let mut protocols = parts.headers.get_all(UPGRADE).iter();
    let only = protocols.next().filter(|_| protocols.next().is_none())?;
    // Another version of HTTP, or HTTP behind TLS, would go round every rule of the edge.
    let items = only.to_str().ok()?.split(',').map(str::trim).map(str::to_ascii_lowercase);
    let goes_round = |item: String| ["h2", "http", "tls"].iter().any(|begin| item.starts_with(begin));
    let fits = nominated && !items.into_iter().any(goes_round) && body.is_end_stream();
    fits.then(|| Upgrade { protocol: only.clone(), translated: false })
}

impl Upgrade {
    /// Whether the client asked by extended CONNECT, which an HTTP/1.1 upstream gets as a GET.
    pub(crate) const fn is_translated(&self) -> bool {
        self.translated
    }

    /// Asks the upstream for it.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, self.protocol.clone());
        if self.translated && self.protocol == "websocket" {
            if let Some(key) = key() {
                headers.insert(SEC_WEBSOCKET_KEY, key);
            }
            headers.entry(SEC_WEBSOCKET_VERSION).or_insert(HeaderValue::from_static("13"));
        }
    }
}

/// Puts the protocol's name back on a 101, from which the rules of one hop took it.
pub(crate) fn agree(headers: &mut HeaderMap, protocol: Option<HeaderValue>) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        headers.insert(UPGRADE, protocol);
    }
}

/// A nonce in the shape of RFC 6455, 4.1; `None` when the system has no randomness, and the upstream then refuses.
fn key() -> Option<HeaderValue> {
    let mut nonce = [0; 16];
    SystemRandom::new().fill(&mut nonce).ok()?;
    HeaderValue::from_str(&STANDARD.encode(nonce)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(headers: &[(&str, &str)], body: &str) -> Option<HeaderValue> {
        let mut request = http::Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (parts, body) = request
            .body(http_body_util::Full::new(bytes::Bytes::from(body.to_owned())))
            .expect("a request")
            .into_parts();
        asked_for(&parts, &body).map(|upgrade| upgrade.protocol)
    }

    #[test]
    fn both_headers_ask_for_an_upgrade_and_neither_alone_does() {
        let both = [("connection", "keep-alive, Upgrade"), ("upgrade", "websocket")];
        assert_eq!(asked(&both, ""), Some(HeaderValue::from_static("websocket")));
        assert_eq!(asked(&both[..1], ""), None);
        assert_eq!(asked(&both[1..], ""), None);
        assert_eq!(asked(&both, "a body"), None);
        for other_http in ["h2c", "HTTP/2.0", "TLS/1.2", "websocket, h2c"] {
            assert_eq!(
                asked(&[("connection", "upgrade"), ("upgrade", other_http)], ""),
                None,
                "{other_http}"
            );
        }
        assert_eq!(asked(&[("connection", "upgrade"), ("upgrade", "a"), ("upgrade", "b")], ""), None);
    }
}
