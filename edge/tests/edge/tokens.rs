//! Tokens as the identity provider issues them, signed with one EC key.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

pub(crate) const ISSUER: &str = "https://localhost:8443/realms/platform";

/// The provider's signing key.
pub(crate) struct Signer(EcdsaKeyPair);

impl Signer {
    pub(crate) fn new() -> Self {
        Self(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key"))
    }

    pub(crate) fn jwks(&self) -> Value {
        let (x, y) = self.0.public_key().as_ref()[1..].split_at(32);
        json!({"keys": [{"kid": "k1", "kty": "EC", "crv": "P-256", "use": "sig", "x": encode(x), "y": encode(y)}]})
    }

    /// A token of `subject`; `changes` replace claims, `null` removes one.
    pub(crate) fn token(&self, subject: &str, changes: &Value) -> String {
        let mut claims = json!({
            "iss": ISSUER, "aud": ["platform-api", "account"], "sub": subject, "exp": 4_000_000_000_u64,
            "azp": "platform-frontend", "preferred_username": subject, "name": "Some One", "email": "one@example.test",
        });
        let members = claims.as_object_mut().expect("an object");
        for (name, value) in changes.as_object().into_iter().flatten() {
            members.insert(name.clone(), value.clone());
        }
        members.retain(|_, value| !value.is_null());
        let head = encode(json!({"alg": "ES256", "kid": "k1"}).to_string());
        let message = format!("{head}.{}", encode(claims.to_string()));
        let signature = self.0.sign(&SystemRandom::new(), message.as_bytes()).expect("a signature");
        format!("{message}.{}", encode(signature))
    }
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}
