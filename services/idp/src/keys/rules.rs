//! Creates keys and signs with them: RS256 for tokens that others verify, keyed digests for values that only the
//! provider reads again (session codes, refresh tokens, client secrets). No I/O.

use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair as _, RsaKeyPair as NewRsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    KeyPair as _, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair, RsaPublicKeyComponents,
};
use ring::{digest, hmac};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use time::{Duration, OffsetDateTime};

/// Bytes of every random secret: codes, cookies, digest keys.
const SECRET_BYTES: usize = 32;
/// Longest token: a session code contains a whole authorization request, at most some 9 KiB.
const MAX_TOKEN_BYTES: usize = 12 << 10;

/// Why a key cannot be created or used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("the system's random source failed")]
    Randomness,
    #[error("an RSA key could not be generated")]
    Generation,
    #[error("the stored signing key does not parse: {0}")]
    Stored(ring::error::KeyRejected),
    #[error("no stored signing key is active")]
    NoneActive,
    #[error("signing failed")]
    Signing,
    #[error("the claims cannot be written: {0}")]
    Claims(#[from] serde_json::Error),
}

impl From<KeyError> for service::ApiError {
    fn from(error: KeyError) -> Self {
        Self::internal(error)
    }
}

/// How long a replaced key stays published: its last tokens live 300 s, and verifiers may allow 30 s more.
const PUBLISHED: Duration = Duration::minutes(6);
/// How long a replaced key is kept: its ID tokens may still be presented at a logout.
pub(crate) const KEPT: Duration = Duration::hours(10);

/// A new RSA key.
pub(crate) struct NewKey {
    pub(crate) kid: String,
    pub(crate) private: Vec<u8>,
    pub(crate) public: Vec<u8>,
}

/// An RSA key as it is stored.
#[derive(Clone)]
pub(crate) struct StoredKey {
    pub(crate) kid: String,
    pub(crate) private: Vec<u8>,
    pub(crate) public: Vec<u8>,
    pub(crate) created_at: OffsetDateTime,
    /// `None` for the active key.
    pub(crate) replaced_at: Option<OffsetDateTime>,
}

/// Generates an RSA-2048 key. Takes a tenth of a second, so call it off the runtime's workers.
pub(crate) fn make_signing_key() -> Result<NewKey, KeyError> {
    let pair = NewRsaKeyPair::generate(KeySize::Rsa2048).map_err(|_| KeyError::Generation)?;
    let private: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| KeyError::Generation)?;
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der().map_err(|_| KeyError::Generation)?;
    let (private, public) = (private.as_ref().to_vec(), public.as_ref().to_vec());
    Ok(NewKey { kid: URL_SAFE_NO_PAD.encode(sha256(&public)), private, public })
}

/// An unguessable text of 43 characters.
pub(crate) fn random_text() -> Result<String, KeyError> {
    random_bytes().map(|bytes| URL_SAFE_NO_PAD.encode(bytes))
}

/// An unguessable key.
pub(crate) fn random_bytes() -> Result<[u8; SECRET_BYTES], KeyError> {
    let mut bytes = [0; SECRET_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| KeyError::Randomness)?;
    Ok(bytes)
}

/// SHA-256.
pub(crate) fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, bytes).as_ref().to_vec()
}

/// The purpose of a keyed digest; a digest for one purpose is never valid for another.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    SessionCode,
    ClientSecret,
    RefreshToken,
    LogoutCode,
    Device,
    AccountForm,
    SecondFactorSetUp,
    RecoveryCode,
    PasskeySetUp,
}

impl Purpose {
    const fn name(self) -> &'static str {
        match self {
            Self::SessionCode => "session-code",
            Self::ClientSecret => "client-secret",
            Self::RefreshToken => "refresh-token",
            Self::LogoutCode => "logout-code",
            Self::Device => "device",
            Self::AccountForm => "account-form",
            Self::SecondFactorSetUp => "second-factor-set-up",
            Self::RecoveryCode => "recovery-code",
            Self::PasskeySetUp => "passkey-set-up",
        }
    }
}

/// The provider's keys in memory. The signing keys change while serving; the digest key never does.
pub(crate) struct KeyRing {
    signing: ArcSwap<SigningKeys>,
    digests: hmac::Key,
}

struct SigningKeys {
    current: SigningKey,
    /// The current one first; tokens signed before a rotation stay valid.
    published: Vec<PublicKey>,
    /// Only for reading old ID tokens at a logout.
    retired: Vec<PublicKey>,
}

struct SigningKey {
    kid: String,
    pair: RsaKeyPair,
}

struct PublicKey {
    kid: String,
    components: PublicKeyComponents<Vec<u8>>,
    spki: Vec<u8>,
}

impl KeyRing {
    /// Creates the key ring from stored keys, the active one first.
    pub(crate) fn new(stored: &[StoredKey], secret: &[u8], now: OffsetDateTime) -> Result<Self, KeyError> {
        let signing = ArcSwap::from_pointee(SigningKeys::of(stored, now)?);
        Ok(Self { signing, digests: hmac::Key::new(hmac::HMAC_SHA512, secret) })
    }

    /// Replaces the signing keys.
    pub(crate) fn take_up(&self, stored: &[StoredKey], now: OffsetDateTime) -> Result<(), KeyError> {
        self.signing.store(Arc::new(SigningKeys::of(stored, now)?));
        Ok(())
    }

    /// Signs the claims as a JWT.
    pub(crate) fn sign(&self, claims: &Value) -> Result<String, KeyError> {
        let SigningKey { kid, pair } = &self.signing.load().current;
        let header = json!({ "alg": "RS256", "typ": "JWT", "kid": kid });
        let message = format!("{}.{}", encode_json(&header)?, encode_json(claims)?);
        let mut signature = vec![0; pair.public().modulus_len()];
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature)
            .map_err(|_| KeyError::Signing)?;
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    /// The claims of a JWT signed with one of this provider's published keys; `None` for anything else. The caller
    /// checks the times.
    pub(crate) fn verify<T: DeserializeOwned>(&self, token: &str) -> Option<T> {
        verify_with(self.signing.load().published.iter(), token)
    }

    /// Like [`Self::verify`], but also accepts retired keys, for a token that may have expired long ago.
    pub(crate) fn verify_old<T: DeserializeOwned>(&self, token: &str) -> Option<T> {
        let signing = self.signing.load();
        verify_with(signing.published.iter().chain(&signing.retired), token)
    }

    /// Creates a token that only the provider reads again (HS512, like Keycloak's refresh tokens).
    pub(crate) fn seal(&self, purpose: Purpose, claims: &Value) -> Result<String, KeyError> {
        let header = json!({ "alg": "HS512", "typ": "JWT" });
        let message = format!("{}.{}", encode_json(&header)?, encode_json(claims)?);
        let tag = self.tag(purpose, message.as_bytes());
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(tag)))
    }

    /// The claims of a token that [`Self::seal`] created for this purpose.
    pub(crate) fn open<T: DeserializeOwned>(&self, purpose: Purpose, token: &str) -> Option<T> {
        let (header, message, payload, tag) = split_token(token)?;
        (header.get("alg")? == "HS512").then_some(())?;
        self.matches(purpose, message.as_bytes(), &tag).then_some(())?;
        serde_json::from_slice(&payload).ok()
    }

    /// A keyed digest of `bytes`, valid for one purpose.
    pub(crate) fn tag(&self, purpose: Purpose, bytes: &[u8]) -> Vec<u8> {
        let mut context = hmac::Context::with_key(&self.digests);
        context.update(purpose.name().as_bytes());
        context.update(b"\0");
        context.update(bytes);
        context.sign().as_ref().to_vec()
    }

    /// Compares a digest in constant time.
    pub(crate) fn matches(&self, purpose: Purpose, bytes: &[u8], tag: &[u8]) -> bool {
        let message = [purpose.name().as_bytes(), b"\0", bytes].concat();
        hmac::verify(&self.digests, &message, tag).is_ok()
    }

    /// The JWKS document.
    pub(crate) fn jwks(&self) -> Value {
        let keys: Vec<Value> = self.signing.load().published.iter().map(PublicKey::jwk).collect();
        json!({ "keys": keys })
    }

    /// `public_key` of the realm document: the current key's `SubjectPublicKeyInfo` in Base64.
    pub(crate) fn public_key(&self) -> String {
        self.signing.load().published.first().map(PublicKey::spki).unwrap_or_default()
    }

    /// The published keys in the representation of administration.
    pub(crate) fn description(&self) -> Value {
        let signing = self.signing.load();
        let shown = |key: &PublicKey| {
            let status = if key.kid == signing.current.kid { "ACTIVE" } else { "PASSIVE" };
            json!({
                "kid": key.kid, "status": status, "type": "RSA", "algorithm": "RS256", "use": "SIG",
                "publicKey": key.spki(),
            })
        };
        let keys: Vec<Value> = signing.published.iter().map(shown).collect();
        json!({ "active": { "RS256": signing.current.kid }, "keys": keys })
    }
}

impl SigningKeys {
    fn of(stored: &[StoredKey], now: OffsetDateTime) -> Result<Self, KeyError> {
        let active = stored.iter().find(|key| key.replaced_at.is_none()).ok_or(KeyError::NoneActive)?;
        let pair = RsaKeyPair::from_pkcs8(&active.private).map_err(KeyError::Stored)?;
        let is_published = |key: &&StoredKey| key.replaced_at.is_none_or(|at| now - at < PUBLISHED);
        let (published, retired): (Vec<_>, Vec<_>) = stored.iter().partition(is_published);
        let public = |keys: Vec<&StoredKey>| keys.into_iter().map(PublicKey::of).collect::<Result<_, _>>();
        let current = SigningKey { kid: active.kid.clone(), pair };
        Ok(Self { current, published: public(published)?, retired: public(retired)? })
    }
}

fn verify_with<'a, T: DeserializeOwned>(
    mut keys: impl Iterator<Item = &'a PublicKey>,
    token: &str,
) -> Option<T> {
    let (header, message, payload, signature) = split_token(token)?;
    (header.get("alg")? == "RS256").then_some(())?;
    let kid = header.get("kid")?.as_str()?;
    let key = keys.find(|key| key.kid == kid)?;
    let components = RsaPublicKeyComponents { n: &key.components.n, e: &key.components.e };
    components.verify(&RSA_PKCS1_2048_8192_SHA256, message.as_bytes(), &signature).ok()?;
    serde_json::from_slice(&payload).ok()
}

impl PublicKey {
    fn of(stored: &StoredKey) -> Result<Self, KeyError> {
        let pair = RsaKeyPair::from_pkcs8(&stored.private).map_err(KeyError::Stored)?;
        let components = PublicKeyComponents::from(pair.public_key());
        Ok(Self { kid: stored.kid.clone(), components, spki: stored.public.clone() })
    }

    /// The public key in Base64.
    fn spki(&self) -> String {
        STANDARD.encode(&self.spki)
    }

    fn jwk(&self) -> Value {
        let number = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        json!({
            "kid": self.kid, "kty": "RSA", "alg": "RS256", "use": "sig",
            "n": number(&self.components.n), "e": number(&self.components.e),
        })
    }
}

/// Header, signed part, payload bytes and signature of a JWT.
fn split_token(token: &str) -> Option<(Value, &str, Vec<u8>, Vec<u8>)> {
    (token.len() <= MAX_TOKEN_BYTES).then_some(())?;
    let (message, signature) = token.rsplit_once('.')?;
    let (header, payload) = message.split_once('.')?;
    let header = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(header).ok()?).ok()?;
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    Some((header, message, payload, URL_SAFE_NO_PAD.decode(signature).ok()?))
}

fn encode_json(value: &Value) -> Result<String, KeyError> {
    Ok(URL_SAFE_NO_PAD.encode(serde_json::to_vec(value)?))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn ring_of_one() -> KeyRing {
        let secret = random_bytes().expect("random");
        KeyRing::new(&[stored(None)], &secret, OffsetDateTime::UNIX_EPOCH).expect("a ring")
    }

    fn stored(replaced_at: Option<OffsetDateTime>) -> StoredKey {
        let NewKey { kid, private, public } = make_signing_key().expect("a key");
        StoredKey { kid, private, public, created_at: OffsetDateTime::UNIX_EPOCH, replaced_at }
    }

    #[test]
    fn a_signed_token_verifies_and_a_changed_one_does_not() {
        let keys = ring_of_one();
        let token = keys.sign(&json!({ "sub": "a" })).expect("signed");
        assert_eq!(keys.verify::<Value>(&token), Some(json!({ "sub": "a" })));
        assert_eq!(ring_of_one().verify::<Value>(&token), None, "another provider's key");
        let (message, signature) = token.rsplit_once('.').expect("three parts");
        let (header, _) = message.split_once('.').expect("three parts");
        let other = URL_SAFE_NO_PAD.encode(r#"{"sub":"b"}"#);
        assert_eq!(keys.verify::<Value>(&format!("{header}.{other}.{signature}")), None);
        for bad in ["", ".", "..", "a.b.c", message] {
            assert_eq!(keys.verify::<Value>(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_sealed_token_is_good_for_its_purpose_only() {
        let keys = ring_of_one();
        let token = keys.seal(Purpose::RefreshToken, &json!({ "sid": 1 })).expect("sealed");
        assert_eq!(keys.open::<Value>(Purpose::RefreshToken, &token), Some(json!({ "sid": 1 })));
        assert_eq!(keys.open::<Value>(Purpose::SessionCode, &token), None);
        assert_eq!(keys.verify::<Value>(&token), None, "it is no signed token");
        let signed = keys.sign(&json!({ "sid": 1 })).expect("signed");
        assert_eq!(keys.open::<Value>(Purpose::RefreshToken, &signed), None);
    }

    #[test]
    fn a_replaced_key_is_published_for_a_while_then_retired() {
        let (mut old, new) = (stored(None), stored(None));
        let (secret, now) = (random_bytes().expect("random"), OffsetDateTime::UNIX_EPOCH);
        let keys = KeyRing::new(std::slice::from_ref(&old), &secret, now).expect("a ring");
        let token = keys.sign(&json!({ "sub": "a" })).expect("signed");
        old.replaced_at = Some(now);
        let both = [new.clone(), old];
        for (after, is_published) in
            [(Duration::ZERO, true), (PUBLISHED - Duration::SECOND, true), (PUBLISHED, false)]
        {
            keys.take_up(&both, now + after).expect("taken up");
            assert_eq!(keys.verify::<Value>(&token).is_some(), is_published, "{after}");
            assert_eq!(keys.jwks()["keys"].as_array().map(Vec::len), Some(1 + usize::from(is_published)));
            assert_eq!(keys.jwks()["keys"][0]["kid"], Value::from(new.kid.as_str()));
            assert!(keys.verify_old::<Value>(&token).is_some(), "{after}");
        }
        keys.take_up(&[new], now).expect("taken up");
        assert_eq!(keys.verify_old::<Value>(&token), None);
        assert!(matches!(keys.take_up(&[], now), Err(KeyError::NoneActive)));
    }
}
