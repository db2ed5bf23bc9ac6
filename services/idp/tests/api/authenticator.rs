//! An authenticator in software: makes passkeys and signs with them as Web Authentication, Level 3, says. What it answers can
//! be changed before it is signed.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::{Value, json};
use testkit::Reply;

use crate::provider::BASE;

const USER_PRESENT: u8 = 0x01;
const USER_VERIFIED: u8 = 0x04;
const ATTESTED: u8 = 0x40;

/// One passkey.
pub(crate) struct Authenticator {
    key: EcdsaKeyPair,
    id: Vec<u8>,
    user: String,
    counter: u32,
    /// Flags of every answer.
    pub(crate) flags: u8,
    /// What the browser says where it is.
    pub(crate) origin: String,
}

impl Authenticator {
    pub(crate) fn new() -> Self {
        let random = SystemRandom::new();
        let document = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &random).expect("a key");
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, document.as_ref(), &random);
        let mut id = vec![0; 16];
        random.fill(&mut id).expect("randomness");
        Self {
            key: key.expect("the key"),
            id,
            user: String::new(),
            counter: 0,
            flags: USER_PRESENT | USER_VERIFIED,
            origin: BASE.to_owned(),
        }
    }

    /// Answers `navigator.credentials.create`.
    pub(crate) fn create(&mut self, options: &Value) -> String {
        options["user"]["id"].as_str().expect("a user").clone_into(&mut self.user);
        let client_data = self.client_data("webauthn.create", options);
        let point = self.key.public_key().as_ref();
        // COSE_Key: kty EC2, alg ES256, crv P-256, x, y.
        let cose = [
            &[0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32][..],
            &point[1..33],
            &[0x22, 0x58, 32],
            &point[33..],
        ];
        let length = u16::try_from(self.id.len()).expect("a short id").to_be_bytes();
        let attested = [&[0; 16], &length[..], &self.id, &cose.concat()].concat();
        let data = [self.data(options["rp"]["id"].as_str(), ATTESTED), attested].concat();
        let size = u16::try_from(data.len()).expect("a short one").to_be_bytes();
        let attestation = [
            &[0xa3, 0x63][..],
            b"fmt",
            &[0x64],
            b"none",
            &[0x67],
            b"attStmt",
            &[0xa0, 0x68],
            b"authData",
            &[0x59],
            &size,
            &data,
        ]
        .concat();
        self.answer(&json!({ "clientDataJSON": encode(client_data.as_bytes()), "attestationObject": encode(&attestation) }))
    }

    /// Answers `navigator.credentials.get`.
    pub(crate) fn get(&mut self, options: &Value) -> String {
        self.counter += 1;
        self.sign(options)
    }

    /// Signs with the counter where it stands, as a copy of the authenticator would.
    pub(crate) fn sign(&self, options: &Value) -> String {
        let client_data = self.client_data("webauthn.get", options);
        let data = self.data(options["rpId"].as_str(), 0);
        let signed = [&data, digest(&SHA256, client_data.as_bytes()).as_ref()].concat();
        let signature = self.key.sign(&SystemRandom::new(), &signed).expect("a signature");
        self.answer(&json!({
            "clientDataJSON": encode(client_data.as_bytes()),
            "authenticatorData": encode(&data),
            "signature": encode(signature.as_ref()),
            "userHandle": self.user,
        }))
    }

    /// Names its passkey by an id of so many bytes.
    pub(crate) fn with_id_of(bytes: usize) -> Self {
        Self { id: vec![7; bytes], ..Self::new() }
    }

    /// Says that it is of another user.
    pub(crate) fn claim(&mut self, user: &str) {
        let id = user.parse::<uuid::Uuid>().expect("a subject");
        self.user = encode(id.as_bytes());
    }

    fn answer(&self, response: &Value) -> String {
        let id = encode(&self.id);
        json!({ "id": id, "rawId": id, "type": "public-key", "response": response }).to_string()
    }

    fn client_data(&self, ceremony: &str, options: &Value) -> String {
        let challenge = &options["challenge"];
        json!({ "type": ceremony, "challenge": challenge, "origin": self.origin, "crossOrigin": false })
            .to_string()
    }

    fn data(&self, host: Option<&str>, more: u8) -> Vec<u8> {
        let host = digest(&SHA256, host.expect("a relying party").as_bytes());
        [host.as_ref(), &[self.flags | more], &self.counter.to_be_bytes()].concat()
    }
}

fn encode(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The options that a page hands to the authenticator.
pub(crate) fn options(page: &Reply) -> Value {
    let text = page.text.split("data-options=\"").nth(1).and_then(|rest| rest.split('"').next());
    let text = text.unwrap_or_else(|| panic!("no ceremony: {} {}", page.status, page.text));
    serde_json::from_str(&text.replace("&quot;", "\"")).expect("JSON")
}
