//! Discovery, keys, the realm, probes, and how every path responds to another realm.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use serde_json::{Value, json};

use crate::provider::{ISSUER, NOW, OIDC, Provider, claims_of};

/// Verifies a token with the published key, as a client does.
async fn verify(provider: &Provider, token: &Value) {
    let keys = provider.get(&format!("{OIDC}/certs")).await.body;
    let token = token.as_str().expect("a token");
    let (message, signature) = token.rsplit_once('.').expect("three parts");
    let header = URL_SAFE_NO_PAD.decode(message.split('.').next().expect("a header")).expect("Base64");
    let header: Value = serde_json::from_slice(&header).expect("JSON");
    let key = &keys["keys"][0];
    assert_eq!(header, json!({ "alg": "RS256", "typ": "JWT", "kid": key["kid"] }));
    let number = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().expect("text")).expect("Base64");
    let key = RsaPublicKeyComponents { n: number("n"), e: number("e") };
    assert_eq!(key.n.len(), 256, "2048 bits");
    let signature = URL_SAFE_NO_PAD.decode(signature).expect("Base64");
    key.verify(&RSA_PKCS1_2048_8192_SHA256, message.as_bytes(), &signature).expect("it verifies");
}

#[tokio::test]
async fn discovery_names_public_addresses_and_nothing_that_is_not_there() {
    let provider = Provider::start().await;
    let document = provider.get("/realms/platform/.well-known/openid-configuration").await.body;
    assert_eq!(document["issuer"], ISSUER);
    assert_eq!(document["token_endpoint"], format!("{ISSUER}/protocol/openid-connect/token"));
    assert_eq!(document["jwks_uri"], format!("{ISSUER}/protocol/openid-connect/certs"));
    assert_eq!(document["end_session_endpoint"], format!("{ISSUER}/protocol/openid-connect/logout"));
    assert_eq!(document["userinfo_endpoint"], format!("{ISSUER}/protocol/openid-connect/userinfo"));
    for path in ["auth", "token", "certs", "logout", "userinfo"] {
        let reply = provider.api.get(format!("{OIDC}/{path}")).send().await;
        assert_ne!((path, reply.status), (path, 404), "every advertised address exists");
    }
}

#[tokio::test]
async fn discovery_says_what_is_offered_and_the_keys_are_public_only() {
    let provider = Provider::start().await;
    let reply = provider.get("/realms/platform/.well-known/openid-configuration").await;
    assert!(reply.header("content-type").starts_with("application/json"));
    let document = reply.body;
    for (name, value) in [
        ("authorization_endpoint", json!(format!("{ISSUER}/protocol/openid-connect/auth"))),
        ("response_types_supported", json!(["code"])),
        ("response_modes_supported", json!(["query", "fragment"])),
        ("grant_types_supported", json!(["authorization_code", "refresh_token", "client_credentials"])),
        ("subject_types_supported", json!(["public"])),
        ("id_token_signing_alg_values_supported", json!(["RS256"])),
        ("code_challenge_methods_supported", json!(["S256"])),
        ("authorization_response_iss_parameter_supported", json!(true)),
        ("claims_parameter_supported", json!(false)),
        ("request_parameter_supported", json!(false)),
        ("request_uri_parameter_supported", json!(false)),
        ("frontchannel_logout_supported", json!(false)),
        ("backchannel_logout_supported", json!(false)),
        ("registration_endpoint", Value::Null),
    ] {
        assert_eq!(document[name], value, "{name}");
    }
    for path in
        ["/.well-known/webfinger?resource=alice", "/realms/platform/clients-registrations/openid-connect"]
    {
        assert_eq!(provider.api.get(path).send().await.status, 404, "{path}");
        assert_eq!(provider.api.post(path).json(json!({})).send().await.status, 404, "{path}");
    }
    let scopes = document["scopes_supported"].as_array().expect("a list");
    assert!(scopes.contains(&json!("openid")), "{scopes:?}");
    let keys = provider.get(&format!("{OIDC}/certs")).await.body;
    let key = keys["keys"][0].as_object().expect("a key");
    let names: BTreeSet<&str> = key.keys().map(String::as_str).collect();
    assert_eq!(names, BTreeSet::from(["alg", "e", "kid", "kty", "n", "use"]));
    assert_eq!((&key["kty"], &key["use"]), (&json!("RSA"), &json!("sig")));
}

#[tokio::test]
async fn an_access_token_verifies_with_the_published_key() {
    let provider = Provider::start().await;
    verify(&provider, &provider.tokens("alice").await["access_token"]).await;
}

#[tokio::test]
async fn an_id_token_is_signed_and_holds_what_its_client_checks() {
    let provider = Provider::start().await;
    let code = provider.login("alice", "alice").await["code"].clone();
    provider.clock.advance(Duration::from_secs(30));
    let tokens = provider.redeem(&code, &[]).await.body;
    verify(&provider, &tokens["id_token"]).await;
    let access = tokens["access_token"].as_str().expect("a token");
    let hash = digest(&SHA256, access.as_bytes());
    let claims = claims_of(&tokens["id_token"]);
    for (name, value) in [
        ("iss", json!(ISSUER)),
        ("aud", json!("platform-frontend")),
        ("azp", json!("platform-frontend")),
        ("iat", json!(NOW + 30)),
        ("exp", json!(NOW + 330)),
        ("auth_time", json!(NOW)),
        ("nonce", json!("a nonce")),
        ("at_hash", json!(URL_SAFE_NO_PAD.encode(&hash.as_ref()[..16]))),
    ] {
        assert_eq!(claims[name], value, "{name}");
    }
    let userinfo = provider.send("GET", &format!("{OIDC}/userinfo"), |call| call.bearer(access)).await;
    assert!(claims["sub"].is_string() && claims["sub"] == userinfo.body["sub"], "{}", userinfo.text);
}

#[tokio::test]
async fn another_realm_is_unknown_on_every_path() {
    let provider = Provider::start().await;
    for path in [
        "/realms/master",
        "/realms/Platform/.well-known/openid-configuration",
        "/realms/master/protocol/openid-connect/auth",
        "/realms/master/protocol/openid-connect/certs",
        "/realms/master/protocol/openid-connect/userinfo",
        "/admin/realms/master/users",
        "/admin/realms/master/admin-events",
    ] {
        let reply = provider.get(path).await;
        assert_eq!((reply.status, reply.body), (404, json!({ "error": "Realm does not exist" })), "{path}");
    }
    assert_eq!(provider.get("/realms/platform").await.body["realm"], "platform");
}

#[tokio::test]
async fn probes_and_style_are_there_and_an_unknown_path_is_not() {
    let provider = Provider::start().await;
    for path in ["/health", "/ready", "/metrics", "/resources/login.css"] {
        assert_eq!(provider.get(path).await.status, 200, "{path}");
    }
    for path in ["/", "/admin", "/admin/realms/platform", "/realms", "/resources/x", "/realms/platform/x"] {
        assert_eq!(provider.api.get(path).send().await.status, 404, "{path}");
    }
    let metrics = provider.get("/metrics").await.text;
    assert!(metrics.contains("platform_idp_logins_total{outcome=\"failed\",service=\"idp\"} 0"), "{metrics}");
}
