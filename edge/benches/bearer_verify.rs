//! Verifies an RS256 token, without and with the cache of verified tokens.

#![expect(clippy::expect_used, reason = "a broken premise ends the measurement")]

use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bearer::{BearerConfig, VerifiedTokens, Verifier};
use contract::{Clock, Settings};
use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

#[expect(dead_code, reason = "the tests' backend can do more than publish keys")]
#[path = "../tests/edge/backend.rs"]
mod backend;

use backend::{Answer, Backend};

const ISSUER: &str = "https://localhost:8443/realms/platform";

fn tokens(criterion: &mut Criterion) {
    let runtime = Runtime::new().expect("a runtime");
    let key = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
    let (verifier, _backend) = runtime.block_on(verifier(&key));
    let known = VerifiedTokens::new(verifier.clone(), 1_000);
    let token = token(&key);
    runtime.block_on(known.verify(&token)).expect("a good token");
    let mut group = criterion.benchmark_group("bearer_verify");
    group.bench_function("each time", |bencher| {
        bencher.iter(|| runtime.block_on(verifier.verify(&token)).expect("a good token"));
    });
    group.bench_function("known", |bencher| {
        bencher.iter(|| runtime.block_on(known.verify(&token)).expect("a good token"));
    });
    group.finish();
}

async fn verifier(key: &RsaKeyPair) -> (Verifier, Backend) {
    let backend = Backend::start().await;
    let public = key.public_key();
    let encode = |number: &[u8]| URL_SAFE_NO_PAD.encode(number);
    let (n, e) = (public.modulus(), public.exponent());
    let n = encode(n.big_endian_without_leading_zero());
    let e = encode(e.big_endian_without_leading_zero());
    let jwks = json!({"keys": [{"kid": "k1", "kty": "RSA", "use": "sig", "n": n, "e": e}]});
    backend.on_path("/certs", Answer::Json(200, jwks));
    let settings = Settings::default()
        .with("IDP_JWKS_URL", format!("http://{}/certs", backend.address))
        .with("IDP_ISSUER_URL", ISSUER);
    let mut reader = settings.reader();
    let config = BearerConfig::read(&mut reader);
    let config = reader.finish(config).expect("good settings");
    let verifier = Verifier::start(config, Clock::system(), CancellationToken::new());
    while !verifier.keys_loaded() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (verifier, backend)
}

fn token(key: &RsaKeyPair) -> String {
    let claims = json!({
        "iss": ISSUER, "aud": ["platform-api", "account"], "sub": "01890a5d-ac96-774b-bcce-b302099a8057",
        "exp": 4_000_000_000_u64, "azp": "platform-frontend", "preferred_username": "alice",
        "name": "Alice Example", "email": "alice@example.test", "scope": "openid profile email",
    });
    let head = json!({"alg": "RS256", "kid": "k1", "typ": "JWT"}).to_string();
    let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(head), URL_SAFE_NO_PAD.encode(claims.to_string()));
    let mut signature = vec![0; key.public_modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature)
        .expect("a signature");
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
}

criterion_group!(benches, tokens);
criterion_main!(benches);
