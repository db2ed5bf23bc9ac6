//! The provider's signing keys as one immutable set: pure, parsed from a JWKS document. Unusable keys (encryption,
//! another curve, another algorithm, no `kid`) are skipped; a document without a usable key is an error.

use std::collections::HashMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// Most keys in a document: more than any provider publishes, so a longer one is a mistake or an attack.
const MAX_KEYS: usize = 64;
/// 2048 to 8192 bits: ring refuses signatures by other keys anyway.
const RSA_MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;
/// Length of one coordinate on P-256.
const P256_COORDINATE_BYTES: usize = 32;

/// A key and the algorithms that it may verify.
#[derive(Clone, Debug)]
pub(crate) struct SigningKey {
    pub(crate) algorithms: &'static [Algorithm],
    pub(crate) key: DecodingKey,
    /// The key's own text, to detect a `kid` that was reassigned to another key.
    material: String,
}

/// The keys by `kid`.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeySet(HashMap<String, SigningKey>);

#[derive(Debug, thiserror::Error)]
pub(crate) enum KeySetError {
    #[error("the response is not a JWKS document: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("the JWKS document holds {0} keys, more than {MAX_KEYS}")]
    TooMany(usize),
    #[error("the JWKS document holds no key that can verify RS256, PS256 or ES256")]
    NoneServes,
}

impl KeySet {
    pub(crate) fn parse(document: &[u8]) -> Result<Self, KeySetError> {
        let Jwks { keys } = serde_json::from_slice(document)?;
        if keys.len() > MAX_KEYS {
            return Err(KeySetError::TooMany(keys.len()));
        }
        let serving: HashMap<_, _> = keys.into_iter().filter_map(serving_key).collect();
        if serving.is_empty() { Err(KeySetError::NoneServes) } else { Ok(Self(serving)) }
    }

    pub(crate) fn find(&self, kid: &str) -> Option<&SigningKey> {
        self.0.get(kid)
    }

    /// Whether `self` still holds every key of `before`.
    pub(crate) fn keeps_all_of(&self, before: &Self) -> bool {
        before.0.iter().all(|(kid, key)| self.0.get(kid).is_some_and(|now| now.material == key.material))
    }
}

#[derive(Deserialize)]
struct Jwks {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct Jwk {
    kid: String,
    kty: String,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

fn serving_key(value: Value) -> Option<(String, SigningKey)> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    if jwk.purpose.as_deref().is_some_and(|purpose| purpose != "sig") {
        return None;
    }
    let algorithms = algorithms(&jwk)?;
    let (key, material) = if jwk.kty == "RSA" { rsa(&jwk)? } else { p256(&jwk)? };
    Some((jwk.kid, SigningKey { algorithms, key, material }))
}

/// The algorithms that a key of this type may verify, narrowed by its own `alg` if present.
fn algorithms(jwk: &Jwk) -> Option<&'static [Algorithm]> {
    match (jwk.kty.as_str(), jwk.crv.as_deref(), jwk.alg.as_deref()) {
        ("RSA", _, None) => Some(&[Algorithm::RS256, Algorithm::PS256]),
        ("RSA", _, Some("RS256")) => Some(&[Algorithm::RS256]),
        ("RSA", _, Some("PS256")) => Some(&[Algorithm::PS256]),
        ("EC", Some("P-256"), None | Some("ES256")) => Some(&[Algorithm::ES256]),
        _ => None,
    }
}

fn rsa(jwk: &Jwk) -> Option<(DecodingKey, String)> {
    let (n, e) = (jwk.n.as_deref()?, jwk.e.as_deref()?);
    let modulus = unsigned(n)?;
    let fits = RSA_MODULUS_BYTES.contains(&modulus.len());
    fits.then_some(())?;
    Some((DecodingKey::from_rsa_raw_components(&modulus, &unsigned(e)?), format!("{n}.{e}")))
}

fn p256(jwk: &Jwk) -> Option<(DecodingKey, String)> {
    let (x, y) = (jwk.x.as_deref()?, jwk.y.as_deref()?);
    let whole = [x, y].into_iter().all(|coordinate| {
        URL_SAFE_NO_PAD.decode(coordinate).is_ok_and(|bytes| bytes.len() == P256_COORDINATE_BYTES)
    });
    whole.then_some(())?;
    Some((DecodingKey::from_ec_components(x, y).ok()?, format!("{x}.{y}")))
}

/// Decodes a big-endian number and strips leading zeros, which some providers write and ring refuses.
fn unsigned(text: &str) -> Option<Vec<u8>> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    Some(bytes.into_iter().skip_while(|byte| *byte == 0).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ec(kid: &str, x: u8) -> Value {
        let coordinate = |byte| URL_SAFE_NO_PAD.encode([byte; P256_COORDINATE_BYTES]);
        json!({"kid": kid, "kty": "EC", "crv": "P-256", "use": "sig", "x": coordinate(x), "y": coordinate(2)})
    }

    fn set(keys: &[Value]) -> Result<KeySet, KeySetError> {
        KeySet::parse(json!({ "keys": keys }).to_string().as_bytes())
    }

    #[test]
    fn a_key_that_cannot_serve_is_left_out_and_the_others_stay() {
        let mut encryption = ec("enc", 1);
        encryption["use"] = json!("enc");
        let mut other_curve = ec("p384", 1);
        other_curve["crv"] = json!("P-384");
        let mut short = ec("short", 1);
        short["x"] = json!("AAAA");
        let secret = json!({"kid": "hmac", "kty": "oct", "k": "c2VjcmV0", "alg": "HS256"});
        let small_rsa =
            json!({"kid": "rsa512", "kty": "RSA", "n": URL_SAFE_NO_PAD.encode([9; 64]), "e": "AQAB"});
        let keys = set(&[encryption, other_curve, short, secret, small_rsa, json!(7), ec("good", 1)])
            .expect("one serves");
        assert!(keys.find("good").is_some());
        for left_out in ["enc", "p384", "short", "hmac", "rsa512"] {
            assert!(keys.find(left_out).is_none(), "{left_out}");
        }
    }

    #[test]
    fn garbage_an_empty_set_and_a_flood_are_no_set() {
        for garbage in ["", "<html>", "[]", "{}", "{\"keys\":7}"] {
            assert!(matches!(KeySet::parse(garbage.as_bytes()), Err(KeySetError::Malformed(_))), "{garbage}");
        }
        assert!(matches!(set(&[]), Err(KeySetError::NoneServes)));
        let many: Vec<_> = (0..=MAX_KEYS).map(|number| ec(&number.to_string(), 1)).collect();
        assert!(matches!(set(&many), Err(KeySetError::TooMany(65))));
    }

    #[test]
    fn a_lost_key_and_a_kid_given_to_another_key_are_both_losses() {
        let before = set(&[ec("a", 1), ec("b", 1)]).expect("a set");
        assert!(set(&[ec("a", 1), ec("b", 1), ec("c", 1)]).expect("a set").keeps_all_of(&before));
        assert!(!set(&[ec("a", 1)]).expect("a set").keeps_all_of(&before));
        assert!(!set(&[ec("a", 1), ec("b", 3)]).expect("a set").keeps_all_of(&before));
    }
}
