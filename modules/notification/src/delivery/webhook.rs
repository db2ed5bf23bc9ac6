//! Requests to webhooks: signed according to the Standard Webhooks specification 1.0.0, sent through
//! `service::outbound`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use contract::id::CompanyId;
use http::header::{CONTENT_TYPE, USER_AGENT};
use http::{HeaderName, HeaderValue, Method};
use ring::hmac;
use service::outbound::{OutboundAnswer, OutboundClient, OutboundError, OutboundRequest};
use service::sealed::Secret;

use super::DeliveryId;

const AGENT: HeaderValue =
    HeaderValue::from_static(concat!("platform-notification/", env!("CARGO_PKG_VERSION")));
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// The platform's own header for the id (module contract, "Notification API").
const DELIVERY_ID: HeaderName = HeaderName::from_static("x-platform-delivery-id");
const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// One attempt to call a webhook.
#[derive(Debug)]
pub struct Attempt<'a> {
    /// The company whose message it is.
    pub company: CompanyId,
    /// The delivery's id, the same for all attempts.
    pub id: DeliveryId,
    /// The time of this attempt, in seconds since 1970.
    pub timestamp: i64,
    /// The URL.
    pub target: &'a str,
    /// The body, the same for all attempts.
    pub body: &'a str,
    /// The secrets, each of which signs; the current one comes first.
    pub secrets: &'a [Secret],
}

impl Attempt<'_> {
    /// Sends the request. The target is checked again, and what its host name resolves to is checked at every
    /// connection.
    ///
    /// # Errors
    /// As [`OutboundClient::send`]. A response with any status is not an error.
    pub async fn send(&self, outbound: &OutboundClient) -> Result<OutboundAnswer, OutboundError> {
        let signatures: Vec<String> = self
            .secrets
            .iter()
            .map(|secret| sign(secret.expose(), self.id, self.timestamp, self.body))
            .collect();
        let mut request = OutboundRequest::new(Method::POST, outbound.target(self.target)?)
            .tenant(self.company.to_string())
            .header(CONTENT_TYPE, JSON)
            .header(USER_AGENT, AGENT)
            .header(TIMESTAMP, HeaderValue::from(self.timestamp));
        let id = self.id.to_string();
        for (name, text) in [(DELIVERY_ID, &id), (ID, &id), (SIGNATURE, &signatures.join(" "))] {
            // UUIDs and base64 are valid header values.
            if let Ok(value) = HeaderValue::from_str(text) {
                request = request.header(name, value);
            }
        }
        // Only the status of the response counts.
        outbound.send(request.body(self.body.to_owned()).head_only()).await
    }
}

/// Signs `id.timestamp.body`: `v1,<base64 of HMAC-SHA256>`.
#[must_use]
pub fn sign(secret: &[u8], id: DeliveryId, timestamp: i64, body: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let tag = hmac::sign(&key, format!("{id}.{timestamp}.{body}").as_bytes());
    format!("v1,{}", STANDARD.encode(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_vector_is_signed_as_the_reference_library_signs_it() {
        let secret: Vec<u8> = (0..32).collect();
        let id = contract::id::parse_uuid("0192f0c1-0000-7000-8000-000000000001").expect("an id");
        let signature = sign(&secret, id.into(), 1_700_000_000, r#"{"type":"t"}"#);
        assert_eq!(signature, "v1,t9J3nr4KMuYgx8Dd1qcrgUkEpofPqjAqxTbmld/fj34=");
    }
}
