//! Requests to switch protocols: `Upgrade` in HTTP/1.1, extended CONNECT in HTTP/2. Only protocols that the
//! configuration allows are forwarded. The upstream always gets an `Upgrade`, and agrees with a 101. Pure, except for
//! the key that a translated WebSocket needs.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use h2::ext::Protocol;
use http::header::{CONNECTION, HeaderMap, HeaderValue, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{Method, Request, Response};
use http_body::Body;
use ring::rand::{SecureRandom, SystemRandom};

use crate::config::Upgrades;
use crate::http::headers::{lists, only};
use crate::pipeline::refusal::Refusal;

/// The protocol switch that the client asks for.
#[derive(Clone, Debug)]
pub(crate) struct Upgrade {
    protocol: HeaderValue,
    /// The client used extended CONNECT, so the upstream's handshake needs a key of its own.
    translated: bool,
}

/// Returns the protocol that a request asks for. HTTP/1.1: exactly one, allowed, on a request without a body; any other
/// request to upgrade is treated as an ordinary request (RFC 9110, 7.8). HTTP/2: any other protocol is refused, because
/// the request has no other meaning there (RFC 9220, 3).
pub(crate) fn asked_for<B: Body>(
    allowed: &Upgrades,
    request: &Request<B>,
) -> Result<Option<Upgrade>, Refusal> {
    if *request.method() == Method::CONNECT {
        let Some(protocol) = request.extensions().get::<Protocol>() else { return Ok(None) };
        let protocol = allowed.find(protocol.as_str().as_bytes()).cloned().ok_or(Refusal::Protocol)?;
        return Ok(Some(Upgrade { protocol, translated: true }));
    }
    let headers = request.headers();
    let asked = only(headers, &UPGRADE).and_then(|name| allowed.find(name));
    let fits = lists(headers, &CONNECTION, "upgrade") && request.body().is_end_stream();
    Ok(asked.filter(|_| fits).map(|protocol| Upgrade { protocol: protocol.clone(), translated: false }))
}

/// Refuses a successful answer to extended CONNECT that opens no tunnel: to such a client every 2xx starts the other
/// protocol (RFC 8441, 5).
pub(crate) fn tunnelled<B>(response: Response<B>) -> Result<Response<B>, Refusal> {
    if response.status().is_success() { Err(Refusal::NoTunnel) } else { Ok(response) }
}

impl Upgrade {
    /// Whether the client used extended CONNECT, which an HTTP/1.1 upstream gets as a GET.
    pub(crate) const fn is_translated(&self) -> bool {
        self.translated
    }

    /// Writes the headers that ask the upstream to switch.
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

/// Restores the protocol's name on a 101, which hop-by-hop stripping removed.
pub(crate) fn agree(headers: &mut HeaderMap, protocol: Option<HeaderValue>) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Some(protocol) = protocol {
        headers.insert(UPGRADE, protocol);
    }
}

/// A nonce as in RFC 6455, 4.1; `None` if the system has no randomness, in which case the upstream refuses.
fn key() -> Option<HeaderValue> {
    let mut nonce = [0; 16];
    SystemRandom::new().fill(&mut nonce).ok()?;
    HeaderValue::from_str(&STANDARD.encode(nonce)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(headers: &[(&str, &str)], body: &str) -> Option<HeaderValue> {
        let mut request = Request::builder();
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = http_body_util::Full::new(bytes::Bytes::from(body.to_owned()));
        let request = request.body(body).expect("a request");
        let asked = asked_for(&Upgrades::default(), &request).expect("HTTP/1.1 is never refused");
        asked.map(|upgrade| upgrade.protocol)
    }

    #[test]
    fn both_headers_ask_for_an_upgrade_and_neither_alone_does() {
        let both = [("connection", "keep-alive, Upgrade"), ("upgrade", " WebSocket")];
        assert_eq!(asked(&both, ""), Some(HeaderValue::from_static("websocket")));
        assert_eq!(asked(&both[..1], ""), None);
        assert_eq!(asked(&both[1..], ""), None);
        assert_eq!(asked(&both, "a body"), None);
        for other in ["h2c", "HTTP/2.0", "TLS/1.2", "websocket, h2c", "websocket/13", "web", ""] {
            assert_eq!(asked(&[("connection", "upgrade"), ("upgrade", other)], ""), None, "{other}");
        }
        let twice = [("connection", "upgrade"), ("upgrade", "websocket"), ("upgrade", "websocket")];
        assert_eq!(asked(&twice, ""), None);
    }
}
