//! Pseudonyms for names in audit rows: digests with a salt of the person's own, which is stored beside the name and
//! deleted with it. After that, the digest can no longer be traced to the name.

use data_encoding::HEXLOWER;
use ring::digest::{Context, SHA256};
use serde_json::{Map, Value, json};

/// SHA-256 of the salt and the name, in hexadecimal.
#[must_use]
pub fn name_digest(salt: &[u8], name: &str) -> String {
    let mut digest = Context::new(&SHA256);
    digest.update(salt);
    digest.update(name.as_bytes());
    HEXLOWER.encode(digest.finish().as_ref())
}

/// Replaces each of `names` in the changes of a payload ([`changes`](crate::changes)) with the digests of its two
/// values, under its name with the suffix `Digest`.
pub fn pseudonymise(payload: &mut Map<String, Value>, salt: &[u8], names: &[&str]) {
    for name in names {
        let Some(change) = payload.remove(*name) else { continue };
        let digest =
            |side: &str| change.get(side).and_then(Value::as_str).map(|text| name_digest(salt, text));
        payload.insert(format!("{name}Digest"), json!({ "from": digest("from"), "to": digest("to") }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_the_rest_stays() {
        let payload = json!({ "email": { "from": null, "to": "mia@example.org" }, "isActive": { "from": true, "to": false } });
        let Value::Object(mut payload) = payload else { panic!("an object") };
        pseudonymise(&mut payload, b"salt", &["displayName", "email"]);
        // printf 'saltmia@example.org' | sha256sum
        let digest = "067d7526bccb4fd984e99005a0da03c6682455421d8e8f28c7058169d3f8856c";
        assert_eq!(
            Value::Object(payload),
            json!({ "emailDigest": { "from": null, "to": digest }, "isActive": { "from": true, "to": false } })
        );
        assert_ne!(name_digest(b"other", "mia@example.org"), digest);
    }
}
