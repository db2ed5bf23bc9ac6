//! Stands in for the identity provider's keys and tokens: signs whatever a test needs, valid or not, and publishes the
//! key where the service under test fetches it.

use std::ops::Range;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use axum::routing::get;
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use contract::Settings;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;

/// Key id of the process's key.
const KID: &str = "testkit";
/// Lifetime of a token, as the real provider's.
const LIFETIME_SECONDS: i64 = 300;
/// Issuer of every token unless a test changes it.
pub const ISSUER: &str = "https://issuer.test/realms/platform";

/// Issues tokens, and serves their key set on a loopback port as long as the test's runtime lives.
#[derive(Clone, Debug)]
pub struct TokenIssuer {
    jwks_url: String,
}

impl TokenIssuer {
    /// Starts the listener that serves the key set.
    ///
    /// # Panics
    /// No loopback port is available.
    #[expect(clippy::expect_used, reason = "a test without a loopback port cannot run")]
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free loopback port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let routes = Router::new().route("/certs", get(|| async { Json(jwks()) }));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { jwks_url: format!("http://{address}/certs") }
    }

    /// A token for `subject` as the real provider would issue it.
    #[must_use]
    pub fn issue(&self, subject: &str) -> String {
        self.token(subject).sign()
    }

    /// A token to modify before signing.
    #[must_use]
    pub fn token(&self, subject: &str) -> TokenBuilder {
        let now = unix_seconds();
        let claims = json!({
            "iss": ISSUER, "sub": subject, "aud": ["platform-api", "account"], "azp": "platform-frontend",
            "iat": now, "exp": now + LIFETIME_SECONDS, "preferred_username": subject,
            "name": subject, "email": format!("{subject}@example.test"),
        });
        TokenBuilder { header: json!({ "alg": "RS256", "typ": "JWT", "kid": KID }), claims }
    }

    /// The token of a client's own account (`client_credentials`).
    #[must_use]
    pub fn service_account(&self, subject: &str, client: &str) -> String {
        let token = self.token(subject).claim("azp", client);
        token.claim("preferred_username", format!("service-account-{client}")).sign()
    }

    /// `IDP_JWKS_URL` and `IDP_ISSUER_URL` of this issuer.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings::default().with("IDP_JWKS_URL", &self.jwks_url).with("IDP_ISSUER_URL", ISSUER)
    }

    /// Address of the key set.
    #[must_use]
    pub fn jwks_url(&self) -> &str {
        &self.jwks_url
    }
}

/// An unsigned token.
#[derive(Clone, Debug)]
pub struct TokenBuilder {
    header: Value,
    claims: Value,
}

impl TokenBuilder {
    /// Sets a claim; `Value::Null` removes it.
    #[must_use]
    pub fn claim(mut self, name: &str, value: impl Into<Value>) -> Self {
        set(&mut self.claims, name, value.into());
        self
    }

    /// Sets a header member; `Value::Null` removes it.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl Into<Value>) -> Self {
        set(&mut self.header, name, value.into());
        self
    }

    /// Sets `exp` to `seconds` from now (negative: expired).
    #[must_use]
    pub fn expires_in(self, seconds: i64) -> Self {
        self.claim("exp", unix_seconds() + seconds)
    }

    /// Signs with the published key, RS256.
    ///
    /// # Panics
    /// The system's random source fails.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test without a random source cannot run")]
    pub fn sign(self) -> String {
        let signed = format!("{}.{}", encode(&self.header), encode(&self.claims));
        let mut signature = vec![0; key().public_modulus_len()];
        key()
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
            .expect("the buffer has the modulus's length");
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

fn set(object: &mut Value, name: &str, value: Value) {
    if let Some(members) = object.as_object_mut() {
        set_member(members, name, value);
    }
}

fn set_member(members: &mut Map<String, Value>, name: &str, value: Value) {
    if value.is_null() {
        members.remove(name);
    } else {
        members.insert(name.to_owned(), value);
    }
}

fn jwks() -> Value {
    // A PKCS #1 RSAPublicKey (RFC 8017) of a 2048-bit key: 9 bytes of header and sign, the modulus, 2 bytes of header,
    // the exponent.
    let der = key().public_key().as_ref();
    let number = |range: Range<usize>| URL_SAFE_NO_PAD.encode(der.get(range).unwrap_or_default());
    json!({ "keys": [{
        "kty": "RSA", "use": "sig", "alg": "RS256", "kid": KID, "n": number(9..265), "e": number(267..der.len()),
    }] })
}

/// One key for the whole process, because generating one takes a good part of a second.
#[expect(clippy::expect_used, reason = "a test without a random source cannot run")]
fn key() -> &'static RsaKeyPair {
    static KEY: OnceLock<RsaKeyPair> = OnceLock::new();
    KEY.get_or_init(|| RsaKeyPair::generate(KeySize::Rsa2048).expect("the random source works"))
}

fn encode(part: &Value) -> String {
    URL_SAFE_NO_PAD.encode(part.to_string())
}

#[expect(clippy::disallowed_methods, reason = "tokens of tests are valid at the machine's time")]
fn unix_seconds() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_secs()).unwrap_or(i64::MAX)
}
