//! Clients at the token route: their authentication, and the tokens of a service account.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::provider::{
    ADMIN_SECRET, CRM_SECRET, NOW, OIDC, Provider, claims_of, expected, oauth_error, with_form,
};

const REFUSAL: &str = "Invalid client or Invalid client credentials";

#[tokio::test]
async fn a_service_client_gets_a_token_for_the_platform() {
    let provider = Provider::start().await;
    let token = provider.client_token("crm-backend", CRM_SECRET).await;
    let claims = claims_of(&Value::from(token));
    for (name, value) in [
        ("aud", json!(["platform-api", "account"])),
        ("azp", json!("crm-backend")),
        ("clientId", json!("crm-backend")),
        ("preferred_username", json!("service-account-crm-backend")),
        ("typ", json!("Bearer")),
        ("exp", json!(NOW + 300)),
    ] {
        assert_eq!(claims[name], value, "{name}");
    }
    let again = claims_of(&Value::from(provider.client_token("crm-backend", CRM_SECRET).await));
    assert_eq!(claims["sub"], again["sub"], "the service account is one user");
    assert_ne!(claims["jti"], again["jti"]);
}

#[tokio::test]
async fn a_secret_may_be_sent_in_the_header() {
    let provider = Provider::start().await;
    let encode = |text: &str| {
        serde_urlencoded::to_string([("", text)]).expect("text").trim_start_matches('=').to_owned()
    };
    let basic = |secret: &str| {
        let joined = format!("crm-backend:{}", encode(secret));
        format!("Basic {}", STANDARD.encode(joined))
    };
    let ask = async |secret: &str| {
        let header = basic(secret);
        let change = |call| with_form(call, &[("grant_type", "client_credentials")]);
        let path = format!("{OIDC}/token");
        provider.send("POST", &path, |call| change(call.header("authorization", header))).await
    };
    let reply = ask(CRM_SECRET).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert!(reply.body.get("refresh_token").is_none());
    let refused = ask("wrong-secret").await;
    assert_eq!(oauth_error(&refused), expected(401, "unauthorized_client", REFUSAL));
    assert_eq!(refused.header("www-authenticate"), "Basic realm=\"platform\"");
}

#[tokio::test]
async fn who_cannot_prove_itself_gets_nothing() {
    let provider = Provider::start().await;
    let grant = ("grant_type", "client_credentials");
    for (form, error) in [
        (vec![grant], "invalid_client"),
        (vec![grant, ("client_id", "nobody"), ("client_secret", CRM_SECRET)], "invalid_client"),
        (vec![grant, ("client_id", "crm-backend")], "unauthorized_client"),
        (vec![grant, ("client_id", "crm-backend"), ("client_secret", "wrong")], "unauthorized_client"),
        (vec![grant, ("client_id", "crm-backend"), ("client_secret", ADMIN_SECRET)], "unauthorized_client"),
    ] {
        assert_eq!(oauth_error(&provider.token(&form).await), expected(401, error, REFUSAL), "{form:?}");
    }
}

#[tokio::test]
async fn each_wrong_token_request_is_named() {
    let provider = Provider::start().await;
    let frontend = ("client_id", "platform-frontend");
    let crm = [("client_id", "crm-backend"), ("client_secret", CRM_SECRET)];
    let public = "Public client not allowed to retrieve service account";
    for (form, status, error, description) in [
        (vec![frontend], 400, "invalid_request", "Missing form parameter: grant_type"),
        (vec![("grant_type", "password"), frontend], 400, "unsupported_grant_type", "Unsupported grant_type"),
        (vec![("grant_type", "client_credentials"), frontend], 401, "unauthorized_client", public),
        (
            vec![("grant_type", "client_credentials"), crm[0], crm[1], ("scope", "root")],
            400,
            "invalid_scope",
            "Invalid scopes: root",
        ),
        (
            vec![
                ("grant_type", "client_credentials"),
                crm[0],
                crm[1],
                ("scope", "email"),
                ("scope", "email"),
            ],
            400,
            "invalid_request",
            "duplicated parameter",
        ),
    ] {
        let reply = provider.token(&form).await;
        assert_eq!(oauth_error(&reply), expected(status, error, description), "{form:?}");
        assert_eq!(reply.header("cache-control"), "no-store");
    }
}

#[tokio::test]
async fn a_client_that_is_no_longer_declared_gets_nothing() {
    let provider = Provider::start().await;
    let before = claims_of(&Value::from(provider.client_token("crm-backend", CRM_SECRET).await));
    let provider = provider.restart(|settings| settings.with("PLATFORM_SERVICE_CLIENTS", "")).await;
    let form =
        [("grant_type", "client_credentials"), ("client_id", "crm-backend"), ("client_secret", CRM_SECRET)];
    assert_eq!(oauth_error(&provider.token(&form).await), expected(401, "invalid_client", REFUSAL));
    assert_eq!(provider.audited("client.disabled").await, 1);
    let provider =
        provider.restart(|settings| settings.with("PLATFORM_SERVICE_CLIENTS", "crm-backend")).await;
    let after = claims_of(&Value::from(provider.client_token("crm-backend", CRM_SECRET).await));
    assert_eq!(before["sub"], after["sub"]);
}

#[tokio::test]
async fn a_header_that_proves_nothing_gets_a_challenge() {
    let provider = Provider::start().await;
    let unknown = format!("Basic {}", STANDARD.encode("nobody:secret"));
    for header in [unknown.as_str(), "Basic !", "Bearer x"] {
        let form = [("grant_type", "client_credentials"), ("client_id", "crm-backend")];
        let form = if header == unknown { &form[..1] } else { &form[..] };
        let path = format!("{OIDC}/token");
        let change = |call| with_form(call, form);
        let reply = provider.send("POST", &path, |call| change(call.header("authorization", header))).await;
        assert_eq!(oauth_error(&reply), expected(401, "invalid_client", REFUSAL), "{header}");
        assert_eq!(reply.header("www-authenticate"), "Basic realm=\"platform\"", "{header}");
    }
}

#[tokio::test]
async fn a_secret_in_the_address_is_not_read() {
    let provider = Provider::start().await;
    let pairs =
        [("grant_type", "client_credentials"), ("client_id", "crm-backend"), ("client_secret", CRM_SECRET)];
    assert_eq!(provider.token(&pairs).await.status, 200, "control");
    let query = serde_urlencoded::to_string(pairs).expect("pairs of texts");
    let path = format!("{OIDC}/token?{query}");
    let posted = provider.post_form(&path, &[]).await;
    let missing = "Missing form parameter: grant_type";
    assert_eq!(oauth_error(&posted), expected(400, "invalid_request", missing));
    let posted = provider.post_form(&path, &pairs[..2]).await;
    assert_eq!(oauth_error(&posted), expected(401, "unauthorized_client", REFUSAL));
    // The document has no such operation.
    let got = provider.api.get(path).send().await;
    assert_eq!(got.status, 405, "{}", got.text);
}

#[tokio::test]
async fn a_token_response_is_whole_kept_by_no_cache_and_unmoved_by_unknown_parameters() {
    let provider = Provider::start().await;
    let form = [
        ("grant_type", "client_credentials"),
        ("client_id", "crm-backend"),
        ("client_secret", CRM_SECRET),
        ("resource", "https://evil.test/"),
        ("audience", "https://evil.test/"),
        ("unknown", "x"),
    ];
    let service = provider.token(&form).await;
    let code = provider.login("alice", "alice").await["code"].clone();
    let person = provider.redeem(&code, &[("resource", "https://evil.test/"), ("unknown", "x")]).await;
    for (reply, scope) in [(service, "email profile"), (person, "openid email profile")] {
        assert_eq!(reply.status, 200, "{}", reply.text);
        assert_eq!((reply.header("cache-control"), reply.header("pragma")), ("no-store", "no-cache"));
        assert!(reply.header("content-type").starts_with("application/json"));
        let body = &reply.body;
        assert_eq!((&body["token_type"], &body["expires_in"]), (&json!("Bearer"), &json!(300)));
        assert_eq!(body["scope"], scope);
        assert_eq!(claims_of(&body["access_token"])["aud"], json!(["platform-api", "account"]));
    }
}

#[tokio::test]
async fn one_request_authenticates_in_one_way() {
    let provider = Provider::start().await;
    let form =
        [("grant_type", "client_credentials"), ("client_id", "crm-backend"), ("client_secret", CRM_SECRET)];
    let basic = format!("Basic {}", STANDARD.encode("crm-backend:crm+secret%3A+a%2Bb%26c%3Dd%25"));
    let path = format!("{OIDC}/token");
    let send = async |pairs: &[(&str, &str)]| {
        provider
            .send("POST", &path, |call| with_form(call.header("authorization", basic.as_str()), pairs))
            .await
    };
    assert_eq!(send(&form[..2]).await.status, 200, "the header alone");
    let (status, error, _) = oauth_error(&send(&form).await);
    assert_eq!((status, error.as_str()), (400, "invalid_request"));
}

#[tokio::test]
async fn a_description_is_printable_ascii_without_quotes() {
    let provider = Provider::start().await;
    let form = [
        ("grant_type", "client_credentials"),
        ("client_id", "crm-backend"),
        ("client_secret", CRM_SECRET),
        ("scope", "a\"b\\c\nä"),
    ];
    let refused = provider.token(&form).await;
    assert_eq!(oauth_error(&refused), expected(400, "invalid_scope", "Invalid scopes: a?b?c??"));
}
