//! Discovery, keys, the realm, probes, and how every path responds to another realm.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use serde_json::json;

use crate::provider::{ISSUER, OIDC, Provider};

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
async fn an_access_token_verifies_with_the_published_key() {
    let provider = Provider::start().await;
    let keys = provider.get(&format!("{OIDC}/certs")).await.body;
    let tokens = provider.tokens("alice").await;
    let token = tokens["access_token"].as_str().expect("a token");
    let (message, signature) = token.rsplit_once('.').expect("three parts");
    let header = URL_SAFE_NO_PAD.decode(message.split('.').next().expect("a header")).expect("Base64");
    let header: serde_json::Value = serde_json::from_slice(&header).expect("JSON");
    let key = &keys["keys"][0];
    assert_eq!(header, json!({ "alg": "RS256", "typ": "JWT", "kid": key["kid"] }));
    let number = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().expect("text")).expect("Base64");
    let key = RsaPublicKeyComponents { n: number("n"), e: number("e") };
    assert_eq!(key.n.len(), 256, "2048 bits");
    let signature = URL_SAFE_NO_PAD.decode(signature).expect("Base64");
    key.verify(&RSA_PKCS1_2048_8192_SHA256, message.as_bytes(), &signature).expect("it verifies");
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
