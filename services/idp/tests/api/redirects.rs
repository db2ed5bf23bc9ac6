//! Where a login may redirect to, and how a refusal is reported.

use serde_json::json;

use crate::browser::{Browser, action};
use crate::provider::{CALLBACK, ISSUER, OIDC, Provider, answer_of, auth_query};

#[tokio::test]
async fn a_redirect_that_is_not_exactly_registered_is_a_page_and_never_a_redirect() {
    let provider = Provider::start().await;
    for good in ["https://localhost:8443/", CALLBACK] {
        assert_eq!(provider.open(&[("redirect_uri", good)]).await.status, 200, "{good}");
    }
    for bad in [
        "",
        "https://localhost:8443",
        "https://localhost:8443/callback/",
        "https://localhost:8443/callback?x=1",
        "https://localhost:8443/callback#x",
        "https://localhost:8444/callback",
        "https://localhost/callback",
        "http://localhost:8443/callback",
        "https://user@localhost:8443/callback",
        "https://localhost:8443@evil.test/callback",
        "https://LOCALHOST:8443/callback",
        "https://localhost:8443/Callback",
        "https://localhost:8443/%63allback",
        "https://localhost:8443/x/../callback",
        "https://localhost:8443/callback/../x",
        "https://localhost:8443//callback",
        "https://127.0.0.1:8443/callback",
        "https://evil.test/",
        "//localhost:8443/callback",
        "/callback",
        "javascript:alert(1)",
        "https://localhost:8443/*",
    ] {
        let reply = provider.open(&[("redirect_uri", bad)]).await;
        assert_eq!((reply.status, reply.header("location")), (400, ""), "{bad}");
        assert!(reply.text.contains("Invalid parameter: redirect_uri"), "{bad}: {}", reply.text);
    }
    let long = format!("https://localhost:8443/{}", "x".repeat(3_000));
    assert_eq!(provider.open(&[("redirect_uri", &long)]).await.status, 400);
}

#[tokio::test]
async fn a_client_in_doubt_is_a_page_and_never_a_redirect() {
    let provider = Provider::start().await;
    let twice = format!("{}&client_id=platform-frontend", auth_query(&[]));
    let long = "x".repeat(300);
    for (query, text) in [
        (auth_query(&[("client_id", "")]), "Missing parameters: client_id"),
        (auth_query(&[("client_id", "nobody")]), "Client not found."),
        (auth_query(&[("client_id", &long)]), "Client not found."),
        (auth_query(&[("client_id", "crm-backend")]), "Invalid parameter: redirect_uri"),
        (twice, "Duplicated parameter: client_id"),
    ] {
        let reply = provider.get(&format!("{OIDC}/auth?{query}")).await;
        assert_eq!((reply.status, reply.header("location")), (400, ""), "{text}");
        assert!(reply.text.contains(text), "{text}: {}", reply.text);
    }
}

#[tokio::test]
async fn a_refused_request_is_told_by_redirect_with_state_and_issuer() {
    let provider = Provider::start().await;
    let long = "x".repeat(2_049);
    for (changes, error, description) in [
        (("code_challenge_method", ""), "invalid_request", "Missing parameter: code_challenge_method"),
        (
            ("code_challenge_method", "plain"),
            "invalid_request",
            "Invalid parameter: code challenge method is not configured one",
        ),
        (("code_challenge", ""), "invalid_request", "Missing parameter: code_challenge"),
        (("code_challenge", "short"), "invalid_request", "Invalid parameter: code_challenge"),
        (("response_type", ""), "invalid_request", "Missing parameter: response_type"),
        (("response_type", "token"), "unsupported_response_type", "Unsupported response_type"),
        (("response_mode", "form_post"), "invalid_request", "Invalid parameter: response_mode"),
        (("scope", "openid root"), "invalid_scope", "Invalid scopes: openid root"),
        (("prompt", "none"), "login_required", "User not logged in"),
        (("nonce", &*long), "invalid_request", "Invalid parameter: nonce"),
    ] {
        let reply = provider.open(&[changes]).await;
        assert_eq!(reply.status, 302, "{changes:?}: {}", reply.text);
        let answer = answer_of(&reply, &format!("{CALLBACK}?"));
        assert_eq!((answer["error"].as_str(), answer["error_description"].as_str()), (error, description));
        assert_eq!((answer["state"].as_str(), answer["iss"].as_str()), ("a state & more", ISSUER));
    }
    let reply = provider.open(&[("state", &long)]).await;
    assert!(!answer_of(&reply, &format!("{CALLBACK}?")).contains_key("state"), "it is not sent back");
}

#[tokio::test]
async fn extra_origins_may_log_in_and_only_they() {
    let provider = Provider::start().await;
    let theirs = "http://localhost:5173/callback";
    assert_eq!(provider.open(&[("redirect_uri", theirs)]).await.status, 400);
    let provider =
        provider.restart(|settings| settings.with("PLATFORM_EXTRA_ORIGINS", "http://localhost:5173")).await;
    for (uri, status) in
        [(theirs, 200), ("http://localhost:5173/", 200), (CALLBACK, 200), ("http://localhost:5174/", 400)]
    {
        assert_eq!(provider.open(&[("redirect_uri", uri)]).await.status, status, "{uri}");
    }
}

#[tokio::test]
async fn only_the_code_flow_is_offered_and_no_request_object() {
    let provider = Provider::start().await;
    for (name, value, error) in [
        ("response_type", "token", "unsupported_response_type"),
        ("response_type", "id_token", "unsupported_response_type"),
        ("response_type", "id_token token", "unsupported_response_type"),
        ("response_type", "code id_token", "unsupported_response_type"),
        ("response_type", "code token", "unsupported_response_type"),
        ("response_type", "none", "unsupported_response_type"),
        ("request", "e30.e30.", "request_not_supported"),
        ("request_uri", "https://localhost:8443/request", "request_uri_not_supported"),
    ] {
        let reply = provider.open(&[(name, value)]).await;
        let answer = answer_of(&reply, &format!("{CALLBACK}?"));
        assert_eq!(answer["error"], error, "{name}={value}");
        for token in ["code", "access_token", "id_token"] {
            assert!(!answer.contains_key(token), "{name}={value}: {token}");
        }
    }
}

#[tokio::test]
async fn parameters_that_are_not_known_are_ignored() {
    let provider = Provider::start().await;
    let page = provider
        .open(&[
            ("display", "popup"),
            ("acr_values", "2"),
            ("claims_locales", "de"),
            ("claims", "{}"),
            ("audience", "https://evil.test/"),
            ("unknown", "x"),
        ])
        .await;
    let answer = answer_of(&provider.submit(&page, "alice", "alice").await, &format!("{CALLBACK}?"));
    assert!(answer.contains_key("code"), "{answer:?}");
}

#[tokio::test]
async fn every_answer_to_a_client_names_the_issuer_of_discovery() {
    let provider = Provider::start().await;
    let discovery = provider.get("/realms/platform/.well-known/openid-configuration").await.body;
    let mut browser = Browser::new(&provider);
    for (mode, mark) in [("query", '?'), ("fragment", '#')] {
        let path =
            |scope| format!("{OIDC}/auth?{}", auth_query(&[("response_mode", mode), ("scope", scope)]));
        let page = browser.get(&format!("{}&prompt=login", path("openid"))).await;
        let form = [("username", "alice"), ("password", "alice")];
        let signed_in = browser.post(&action(&page, "kc-form-login"), &form).await;
        let resumed = browser.get(&path("openid")).await;
        let refused = browser.get(&path("root")).await;
        for (reply, name) in [(signed_in, "code"), (resumed, "code"), (refused, "error")] {
            let answer = answer_of(&reply, &format!("{CALLBACK}{mark}"));
            assert!(answer.contains_key(name), "{mode}: {answer:?}");
            assert_eq!(json!(answer["iss"]), discovery["issuer"], "{mode} {name}");
        }
    }
}

#[tokio::test]
async fn no_script_of_another_origin_may_read_an_authorization() {
    let provider = Provider::start().await;
    for changes in [&[][..], &[("scope", "root")], &[("client_id", "nobody")]] {
        let path = format!("{OIDC}/auth?{}", auth_query(changes));
        let reply = provider.send("GET", &path, |call| call.header("origin", "https://evil.test")).await;
        assert_eq!(reply.header("access-control-allow-origin"), "", "{changes:?}");
    }
}
