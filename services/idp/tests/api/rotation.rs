//! Rotation of signing keys while serving.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::provider::{ADMIN_SECRET, CALLBACK, OIDC, Provider};

const KEYS: &str = "/admin/realms/platform/keys";

async fn published(provider: &Provider) -> Vec<String> {
    let keys = provider.get(&format!("{OIDC}/certs")).await.body;
    let keys = keys["keys"].as_array().expect("keys").iter();
    keys.map(|key| key["kid"].as_str().expect("an id").to_owned()).collect()
}

fn kid_of(token: &Value) -> String {
    let header = token.as_str().and_then(|token| token.split('.').next()).expect("a JWT");
    let header = URL_SAFE_NO_PAD.decode(header).expect("Base64");
    let header: Value = serde_json::from_slice(&header).expect("JSON");
    header["kid"].as_str().expect("an id").to_owned()
}

async fn userinfo(provider: &Provider, tokens: &Value) -> u16 {
    let token = tokens["access_token"].as_str().expect("a token").to_owned();
    provider.send("GET", &format!("{OIDC}/userinfo"), |call| call.bearer(&token)).await.status
}

#[tokio::test]
async fn an_administrator_has_a_new_key_at_once_and_old_tokens_stay_good() {
    let provider = Provider::start().await;
    let admin = provider.client_token("platform-admin", ADMIN_SECRET).await;
    let before = provider.tokens("alice").await;
    let old = published(&provider).await;
    assert_eq!(old, [kid_of(&before["access_token"])]);

    let rotated = provider.send("POST", &format!("{KEYS}/rotate"), |call| call.bearer(&admin)).await;
    assert_eq!(rotated.status, 200, "{}", rotated.text);
    let both = published(&provider).await;
    assert_eq!((both.len(), &both[1]), (2, &old[0]));
    let listed = provider.send("GET", KEYS, |call| call.bearer(&admin)).await;
    assert_eq!(listed.body, rotated.body, "the token of the old key opens administration");
    assert_eq!(listed.body["active"], json!({ "RS256": both[0] }));
    let statuses: Vec<&Value> =
        listed.body["keys"].as_array().expect("keys").iter().map(|key| &key["status"]).collect();
    assert_eq!(statuses, ["ACTIVE", "PASSIVE"]);

    assert_eq!(userinfo(&provider, &before).await, 200);
    let after = provider.refresh(&before).await.body;
    assert_eq!(
        (kid_of(&after["access_token"]), kid_of(&after["id_token"])),
        (both[0].clone(), both[0].clone())
    );
    assert_eq!(provider.audited("signing_key.rotated").await, 1);
    let provider = provider.restart(|settings| settings).await;
    assert_eq!(published(&provider).await, both, "a restart keeps both");
}

#[tokio::test]
async fn a_key_that_is_too_old_is_replaced_once() {
    let provider = Provider::start().await;
    let (app, _stop) = provider.twin(|settings| settings.with("PLATFORM_IDP_KEY_MAX_AGE", "1h")).await;
    provider.clock.advance(Duration::from_secs(3_599));
    idp::rotate_once(&app).await.expect("a step");
    assert_eq!(provider.audited("signing_key.rotated").await, 0);
    let tokens = provider.tokens("alice").await;
    provider.clock.advance(Duration::from_secs(1));
    idp::rotate_once(&app).await.expect("a step");
    idp::rotate_once(&app).await.expect("a step");
    assert_eq!(provider.audited("signing_key.rotated").await, 1);

    let provider = provider.restart(|settings| settings).await;
    assert_eq!(published(&provider).await.len(), 2);
    assert_eq!(userinfo(&provider, &tokens).await, 200);
}

#[tokio::test]
async fn an_old_key_goes_when_its_tokens_have_run_out_and_still_serves_a_logout() {
    let provider = Provider::start().await;
    let (tokens, other) = (provider.tokens("alice").await, provider.tokens("bob").await);
    let admin = provider.client_token("platform-admin", ADMIN_SECRET).await;
    provider.send("POST", &format!("{KEYS}/rotate"), |call| call.bearer(&admin)).await;
    provider.clock.advance(Duration::from_mins(6));
    let (app, _stop) = provider.twin(|settings| settings).await;
    idp::rotate_once(&app).await.expect("a step");
    let provider = provider.restart(|settings| settings).await;
    assert_eq!(published(&provider).await.len(), 1);

    let logout = async |provider: &Provider, tokens: &Value| {
        let hint = tokens["id_token"].as_str().expect("an ID token");
        let query =
            serde_urlencoded::to_string([("id_token_hint", hint), ("post_logout_redirect_uri", CALLBACK)]);
        provider.get(&format!("{OIDC}/logout?{}", query.expect("pairs of texts"))).await.status
    };
    assert_eq!(logout(&provider, &tokens).await, 302);
    assert_eq!(provider.audited("session.ended").await, 1);
    provider.clock.advance(Duration::from_hours(10));
    idp::rotate_once(&app).await.expect("a step");
    assert_eq!(provider.audited("signing_key.removed").await, 1);
    let provider = provider.restart(|settings| settings).await;
    assert_eq!(logout(&provider, &other).await, 400);
}
