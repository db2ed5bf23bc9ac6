//! The table of valid and invalid tokens.

use bearer::{Claims, Refused};
use serde_json::{Value, json};

use crate::provider::{Answer, Key, Provider, encode};
use crate::{ISSUER, NOW, verifier};

struct Fixture {
    rsa: Key,
    ec: Key,
    verifier: bearer::Verifier,
    _provider: Provider,
    _stop: tokio_util::sync::DropGuard,
}

async fn fixture() -> Fixture {
    let (rsa, ec) = (Key::rsa(), Key::ec());
    let mut rs_only = rsa.jwk("rs-only");
    rs_only["alg"] = json!("RS256");
    let provider = Provider::start(Answer::Keys(vec![rsa.jwk("rsa"), ec.jwk("ec"), rs_only])).await;
    let (verifier, stop) = verifier(&provider);
    while !verifier.keys_loaded() {
        tokio::task::yield_now().await;
    }
    Fixture { rsa, ec, verifier, _provider: provider, _stop: stop }
}

fn header(algorithm: &str, kid: &str) -> Value {
    json!({"alg": algorithm, "kid": kid, "typ": "JWT"})
}

fn claims() -> Value {
    json!({
        "iss": ISSUER, "aud": ["platform-api", "account"], "sub": "a1", "exp": NOW + 300, "iat": NOW, "nbf": NOW,
        "azp": "crm-backend", "preferred_username": "service-account-crm-backend", "name": "CRM", "email": "c@x.test",
    })
}

/// The standard claims with some changed; `null` removes one.
fn with(changes: &Value) -> Value {
    let mut claims = claims();
    let members = claims.as_object_mut().expect("an object");
    for (name, value) in changes.as_object().expect("an object") {
        if value.is_null() {
            members.remove(name);
        } else {
            members.insert(name.clone(), value.clone());
        }
    }
    claims
}

#[tokio::test]
async fn the_three_algorithms_pass_and_the_claims_come_through() {
    let fixture = fixture().await;
    for (key, algorithm, kid) in [
        (&fixture.rsa, "RS256", "rsa"),
        (&fixture.rsa, "PS256", "rsa"),
        (&fixture.ec, "ES256", "ec"),
        (&fixture.rsa, "RS256", "rs-only"),
    ] {
        let verified = fixture.verifier.verify(&key.token(&header(algorithm, kid), &claims())).await;
        let verified: Claims = verified.unwrap_or_else(|refused| panic!("{algorithm} {kid}: {refused}"));
        assert_eq!(verified.subject.as_str(), "a1");
        assert_eq!(verified.authorized_party.as_deref(), Some("crm-backend"));
        assert_eq!(verified.expires_at, NOW + 300);
        assert_eq!(verified.email.as_deref(), Some("c@x.test"));
        assert!(verified.is_service_account());
    }
}

#[tokio::test]
async fn claims_at_their_limits_pass() {
    let fixture = fixture().await;
    for changes in [
        json!({"aud": "platform-api"}),
        json!({"exp": NOW - 29}),
        json!({"exp": 1_800_000_300.5}),
        json!({"nbf": NOW + 30}),
        json!({"nbf": null, "azp": null, "name": null, "email": null, "preferred_username": "alice"}),
    ] {
        let token = fixture.ec.token(&header("ES256", "ec"), &with(&changes));
        let verified = fixture.verifier.verify(&token).await;
        assert!(verified.is_ok(), "{changes}: {verified:?}");
    }
}

#[tokio::test]
async fn every_wrong_claim_is_refused() {
    let fixture = fixture().await;
    for changes in [
        json!({"iss": "https://localhost:8443/realms/master"}),
        json!({"iss": [ISSUER]}),
        json!({"iss": null}),
        json!({"aud": ["account"], "azp": "platform-api"}),
        json!({"aud": []}),
        json!({"aud": null}),
        json!({"aud": {"platform-api": true}}),
        json!({"aud": "platform-api-2"}),
        json!({"sub": ""}),
        json!({"sub": null}),
        json!({"sub": 7}),
        json!({"sub": "x".repeat(256)}),
        json!({"exp": null}),
        json!({"exp": NOW - 30}),
        json!({"exp": (NOW + 300).to_string()}),
        json!({"exp": -1.5}),
        json!({"exp": 1e300}),
        json!({"nbf": NOW + 31}),
        json!({"nbf": NOW.to_string()}),
        json!({"nbf": 1e300}),
    ] {
        let token = fixture.ec.token(&header("ES256", "ec"), &with(&changes));
        let verified = fixture.verifier.verify(&token).await;
        assert!(matches!(verified, Err(Refused::Invalid(_))), "{changes}: {verified:?}");
    }
}

#[tokio::test]
async fn every_wrong_header_is_refused() {
    let fixture = fixture().await;
    let mut critical = header("ES256", "ec");
    critical["crit"] = json!(["exp"]);
    for header in [
        critical,
        json!({"alg": "ES256"}),
        json!({"alg": "none", "kid": "ec"}),
        json!({"alg": "HS256", "kid": "ec"}),
        json!({"alg": "ES384", "kid": "ec"}),
        json!({"alg": "RS256", "kid": "ec"}),
        json!({"alg": "ES256", "kid": "rsa"}),
        json!({"alg": "ES256", "kid": "k".repeat(257)}),
        json!({"kid": "ec"}),
        json!([]),
    ] {
        let verified = fixture.verifier.verify(&fixture.ec.token(&header, &claims())).await;
        assert!(matches!(verified, Err(Refused::Invalid(_))), "{header}: {verified:?}");
    }
    let other_padding = fixture.rsa.token(&header("PS256", "rs-only"), &claims());
    assert!(
        matches!(fixture.verifier.verify(&other_padding).await, Err(Refused::Invalid(_))),
        "alg of the key"
    );
}

#[tokio::test]
async fn a_changed_or_borrowed_signature_is_refused() {
    let fixture = fixture().await;
    let good = fixture.ec.token(&header("ES256", "ec"), &claims());
    let (message, signature) = good.rsplit_once('.').expect("three parts");
    let (head, _) = message.split_once('.').expect("three parts");
    let other_claims = encode(with(&json!({"sub": "root"})).to_string());
    for bad in [
        format!("{head}.{other_claims}.{signature}"),
        format!("{message}."),
        format!("{message}.{}", encode([0; 64])),
        format!("{message}.{signature}="),
        format!("{message}.{signature}.x"),
        Key::ec().token(&header("ES256", "ec"), &claims()),
        message.to_owned(),
        String::new(),
        "..".to_owned(),
        "a.b.c".to_owned(),
        "x".repeat(20_000),
    ] {
        let verified = fixture.verifier.verify(&bad).await;
        assert!(matches!(verified, Err(Refused::Invalid(_))), "{bad}: {verified:?}");
    }
    assert!(fixture.verifier.verify(&good).await.is_ok());
}
