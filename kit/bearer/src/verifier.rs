//! [`Verifier`]: turns a token's text into [`Claims`] or [`Refused`]. `verify` shows the order of checks.

use std::sync::Arc;

use contract::Clock;
use jsonwebtoken::{Header, Validation};
use tokio_util::sync::CancellationToken;

use crate::claims::{self, Expected, RawClaims};
use crate::fetch::Fetcher;
use crate::keys::SigningKey;
use crate::refresh::KeyStore;
use crate::{BearerConfig, Claims, Refused, crypto};

/// About ten times the size of a real token.
const MAX_TOKEN_BYTES: usize = 16 << 10;
/// Limit of the header alone, which is parsed before anything is verified: about eight times a real one; parsing its
/// members costs far more than their bytes.
const MAX_HEADER_BYTES: usize = 1 << 10;
/// Key ids are compared and remembered, so they have their own limit.
const MAX_KID_BYTES: usize = 256;

/// Verifies tokens of one provider. Cheap to clone; clones share the key set.
#[derive(Clone, Debug)]
pub struct Verifier(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    issuer: String,
    audience: String,
    clock: Clock,
    store: Arc<KeyStore>,
}

impl Verifier {
    /// Makes a verifier and spawns the task that keeps its keys fresh until `stop`. Must be called on a tokio runtime.
    #[must_use]
    pub fn start(config: BearerConfig, clock: Clock, stop: CancellationToken) -> Self {
        crypto::install();
        let store = Arc::new(KeyStore::new(Fetcher::new(config.jwks_url)));
        tokio::spawn(Arc::clone(&store).keep_fresh(config.refresh_interval, stop));
        Self(Arc::new(Inner { issuer: config.issuer, audience: config.audience, clock, store }))
    }

    /// The claims of a token that this provider signed for this platform and that is valid now. An unknown key id
    /// triggers one refetch of the keys, shared with concurrent requests.
    ///
    /// # Errors
    /// [`Refused::Invalid`] for a token that does not verify, [`Refused::KeysUnavailable`] before the first keys.
    pub async fn verify(&self, token: &str) -> Result<Claims, Refused> {
        let header = header_of(token)?;
        let kid = kid_of(&header)?;
        let known = self.0.store.keys().ok_or(Refused::KeysUnavailable)?;
        if let Some(key) = known.find(kid) {
            return self.check(token, &header, key);
        }
        let asked = self.0.store.keys_for_unknown(kid).await.ok_or(Refused::KeysUnavailable)?;
        let key = asked.find(kid).ok_or(Refused::Invalid("unknown signing key"))?;
        self.check(token, &header, key)
    }

    /// Whether the provider's keys have been read at least once.
    #[must_use]
    pub fn keys_loaded(&self) -> bool {
        self.0.store.keys().is_some()
    }

    /// Waits until the provider's keys have been read once.
    pub async fn keys_arrived(&self) {
        self.0.store.arrived().await;
    }

    /// How long ago the provider's keys were last read; `None` before the first time.
    #[must_use]
    pub fn keys_age(&self) -> Option<std::time::Duration> {
        self.0.store.age()
    }

    /// Increases when the key set loses a key: caches of verified tokens must then be cleared.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.0.store.generation()
    }

    /// The time against which this verifier checks `exp` and `nbf`.
    pub(crate) fn now(&self) -> i64 {
        self.0.clock.unix_seconds()
    }

    fn check(&self, token: &str, header: &Header, key: &SigningKey) -> Result<Claims, Refused> {
        if !key.algorithms.contains(&header.alg) {
            return Err(Refused::Invalid("the algorithm does not match the key"));
        }
        let signature_only = signature_only(header);
        let decoded = jsonwebtoken::decode::<RawClaims>(token, &key.key, &signature_only)
            .map_err(|_| Refused::Invalid("bad signature or malformed claims"))?;
        let expected = Expected { issuer: &self.0.issuer, audience: &self.0.audience, now: self.now() };
        claims::accept(decoded.claims, expected)
    }
}

fn header_of(token: &str) -> Result<Header, Refused> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(Refused::Invalid("too long"));
    }
    if token.find('.').unwrap_or(token.len()) > MAX_HEADER_BYTES {
        return Err(Refused::Invalid("the header is too long"));
    }
    let header = jsonwebtoken::decode_header(token).map_err(|_| Refused::Invalid("not a signed JWT"))?;
    if !crypto::ACCEPTED.contains(&header.alg) {
        return Err(Refused::Invalid("the algorithm is not accepted"));
    }
    if header.crit.is_some() {
        return Err(Refused::Invalid("critical extensions are not supported"));
    }
    Ok(header)
}

fn kid_of(header: &Header) -> Result<&str, Refused> {
    let kid = header.kid.as_deref().ok_or(Refused::Invalid("no key id"))?;
    if kid.len() > MAX_KID_BYTES { Err(Refused::Invalid("the key id is too long")) } else { Ok(kid) }
}

/// Makes jsonwebtoken check only the signature: its claim checks read the machine's clock and accept an array of
/// issuers, so `claims.rs` does them.
fn signature_only(header: &Header) -> Validation {
    let mut validation = Validation::new(header.alg);
    validation.required_spec_claims.clear();
    validation.validate_exp = false;
    validation.validate_nbf = false;
    validation.validate_aud = false;
    validation
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    use super::*;

    /// A token whose header has `header_bytes` bytes in base64, three quarters of that decoded.
    fn token(header_bytes: usize) -> String {
        let begin = r#"{"alg":"RS256","kid":"k1","a":""#;
        let filler = "x".repeat(header_bytes / 4 * 3 - begin.len() - 2);
        let header = URL_SAFE_NO_PAD.encode(format!("{begin}{filler}\"}}"));
        assert_eq!(header.len(), header_bytes);
        format!("{header}.e30.AAAA")
    }

    #[test]
    fn a_header_is_read_up_to_its_limit_and_no_longer_one() {
        assert_eq!(header_of(&token(MAX_HEADER_BYTES)).map(|header| header.kid), Ok(Some("k1".to_owned())));
        let longer = header_of(&token(MAX_HEADER_BYTES + 4)).map(|_| ());
        assert_eq!(longer, Err(Refused::Invalid("the header is too long")));
        let endless = header_of(&"A".repeat(MAX_TOKEN_BYTES)).map(|_| ());
        assert_eq!(endless, Err(Refused::Invalid("the header is too long")));
        for short in ["", "A", "e30"] {
            assert!(header_of(short).is_err(), "{short:?}");
        }
    }

    #[test]
    fn a_token_is_read_up_to_its_limit_and_no_longer_one() {
        let token = |bytes: usize| {
            let begin = "eyJhbGciOiJSUzI1NiIsImtpZCI6ImsxIn0.e30.";
            format!("{begin}{}", "A".repeat(bytes - begin.len()))
        };
        assert!(header_of(&token(MAX_TOKEN_BYTES)).is_ok());
        assert_eq!(header_of(&token(MAX_TOKEN_BYTES + 1)).map(|_| ()), Err(Refused::Invalid("too long")));
    }
}
