//! A person's use of the provider: documents, the form, PKCE, redirect URIs, refresh, logout.

use serde_json::json;

use super::Suite;
use super::browser::VERIFIER;
use crate::harness::login::{claims, parameter};

/// The documents name only public addresses, whoever requested them.
pub(super) async fn documents(suite: &Suite) {
    let base_url = &suite.platform.base_url;
    let discovery = suite.browser().get("/.well-known/openid-configuration", &[]).await.json();
    assert_eq!(discovery["issuer"], format!("{base_url}/realms/platform"));
    for endpoint in ["authorization_endpoint", "token_endpoint", "jwks_uri", "end_session_endpoint"] {
        let address = discovery[endpoint].as_str().expect("an address");
        assert!(address.starts_with(&format!("{base_url}/realms/platform/")), "{endpoint}: {address}");
    }
    let methods = discovery["code_challenge_methods_supported"].as_array().expect("a list");
    assert!(methods.contains(&json!("S256")), "{methods:?}");
    let keys = suite.browser().get("/protocol/openid-connect/certs", &[]).await.json();
    assert!(keys["keys"].as_array().is_some_and(|keys| !keys.is_empty()), "{keys}");
}

/// A wrong password shows the form again; the right one yields tokens that the platform accepts.
pub(super) async fn form(suite: &Suite) {
    let browser = suite.browser();
    let page = browser.authorize(&[]).await;
    let again = browser.submit(&page, "alice", "wrong").await;
    assert_eq!((again.status, again.location.as_deref()), (200, None), "{}", again.text);
    assert!(again.text.contains("Invalid username or password."), "{}", again.text);
    let sent = browser.submit(&again, "alice", "alice").await;
    assert!(sent.redirect().starts_with(&format!("{}?", browser.callback())), "{}", sent.redirect());
    assert_eq!(parameter(sent.redirect(), "state"), "the-state");
    let answer = browser.exchange(sent.redirect(), VERIFIER).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let tokens = answer.json();
    assert_eq!(tokens["token_type"], "Bearer");
    super::lasts(&tokens, 300);
    let token = super::access(&tokens);
    let said = claims(&token);
    assert_eq!(said["iss"], format!("{}/realms/platform", suite.platform.base_url));
    assert_eq!((&said["azp"], &said["preferred_username"]), (&json!("platform-frontend"), &json!("alice")));
    assert!(super::is_for_the_platform(&said), "{said}");
    let companies = suite.api().with_token(&token).get("/api/org/me/companies").await;
    assert_eq!(companies.data(200)[0]["code"], "ACME");
    let about = browser.get_as(&token, "/protocol/openid-connect/userinfo").await;
    assert_eq!((about.status, &about.json()["sub"]), (200, &said["sub"]), "{}", about.text);
    browser.exchange(sent.redirect(), VERIFIER).await.refused(&[400], "invalid_grant");
}

/// Without a challenge, or with a plain one, there is no code; with a wrong verifier there are no tokens.
pub(super) async fn pkce(suite: &Suite) {
    for changes in [
        &[("code_challenge", ""), ("code_challenge_method", "")][..],
        &[("code_challenge", ""), ("code_challenge_method", "S256")],
        &[("code_challenge", VERIFIER), ("code_challenge_method", "plain")],
        &[("code_challenge", VERIFIER), ("code_challenge_method", "")],
    ] {
        let answer = suite.browser().authorize(changes).await;
        let address = answer.redirect();
        assert!(address.starts_with(&suite.browser().callback()), "{address}");
        assert_eq!(parameter(address, "error"), "invalid_request", "{address}");
        assert!(!address.contains("code="), "{address}");
    }
    let browser = suite.browser();
    let page = browser.authorize(&[]).await;
    let sent = browser.submit(&page, "alice", "alice").await;
    let other = VERIFIER.replace('d', "e");
    browser.exchange(sent.redirect(), &other).await.refused(&[400], "invalid_grant");
}

/// A URI that is not registered exactly ends on the provider's own page.
pub(super) async fn redirects(suite: &Suite) {
    let base_url = &suite.platform.base_url;
    for address in [
        "https://evil.example/callback".to_owned(),
        format!("{base_url}/other"),
        format!("{base_url}/callback/"),
        format!("{base_url}/callback/../other"),
        format!("{base_url}.evil.example/callback"),
        format!("{base_url}@evil.example/callback"),
        base_url.replace("https://", "http://") + "/callback",
    ] {
        let answer = suite.browser().authorize(&[("redirect_uri", &address)]).await;
        assert_eq!((answer.status, answer.location.as_deref()), (400, None), "{address}: {}", answer.text);
    }
    for address in [format!("{base_url}/"), format!("{base_url}/callback")] {
        assert_eq!(suite.browser().authorize(&[("redirect_uri", &address)]).await.status, 200, "{address}");
    }
}

/// Each refresh token is valid once; reuse ends the session. The built-in provider repeats the response for clients
/// that lost it, until the next token is used too.
pub(super) async fn refresh(suite: &Suite) {
    let browser = suite.browser();
    let first = browser.login("bob").await;
    let idle = first["refresh_expires_in"].as_i64().expect("a number");
    assert!((1_790..=1_800).contains(&idle), "30 minutes: {idle}");
    let second = browser.refresh(&first).await;
    assert_eq!(second.status, 200, "{}", second.text);
    let second = second.json();
    assert_eq!(claims(&super::access(&second))["sub"], claims(&super::access(&first))["sub"]);
    suite.api().with_token(&super::access(&second)).get("/api/org/me/companies").await.data(200);
    let mut last = second;
    if suite.operator.repeats_refreshes() {
        assert_eq!(browser.refresh(&first).await.json(), last);
        last = browser.refresh(&last).await.json();
    }
    browser.refresh(&first).await.refused(&[400], "invalid_grant");
    browser.refresh(&last).await.refused(&[400], "invalid_grant");
}

/// A browser that has signed in needs no form until it signs out; a client can force a login or limit its age.
pub(super) async fn sessions(suite: &Suite) {
    let browser = suite.browser().at_documents();
    let unknown = browser.authorize(&[("prompt", "none")]).await;
    assert_eq!(parameter(unknown.redirect(), "error"), "login_required");
    let tokens = browser.login("carol").await;

    for changes in [&[][..], &[("prompt", "none")], &[("max_age", "3600"), ("prompt", "none")]] {
        let again = browser.authorize(changes).await;
        let answer = browser.exchange(again.redirect(), VERIFIER).await;
        assert_eq!(answer.status, 200, "{changes:?}: {}", answer.text);
        let (first, second) = (claims(&super::access(&tokens)), claims(&super::access(&answer.json())));
        assert_eq!(
            (&first["sub"], &first["auth_time"]),
            (&second["sub"], &second["auth_time"]),
            "{changes:?}"
        );
    }
    let asked = browser.authorize(&[("prompt", "login")]).await;
    assert_eq!((asked.status, asked.location.as_deref()), (200, None), "{}", asked.text);
    let other = suite.browser().at_documents().authorize(&[]).await;
    assert_eq!((other.status, other.location.as_deref()), (200, None), "another browser: {}", other.text);

    let hint = tokens["id_token"].as_str().expect("an ID token");
    let (callback, path) = (browser.callback(), "/protocol/openid-connect/logout");
    let link = [("id_token_hint", hint), ("post_logout_redirect_uri", callback.as_str())];
    assert!(browser.get(path, &link).await.redirect().starts_with(&callback));
    let after = browser.authorize(&[("prompt", "none")]).await;
    assert_eq!(parameter(after.redirect(), "error"), "login_required");
}

/// Logout with the refresh token, as an application does, and with the ID token, as a browser does.
pub(super) async fn logout(suite: &Suite) {
    let browser = suite.browser();
    let tokens = browser.login("bob").await;
    let refresh_token = tokens["refresh_token"].as_str().expect("a refresh token");
    let form = [("client_id", "platform-frontend"), ("refresh_token", refresh_token)];
    let ended = browser.post("/protocol/openid-connect/logout", &form).await;
    assert_eq!(ended.status, 204, "{}", ended.text);
    browser.refresh(&tokens).await.refused(&[400], "invalid_grant");

    let browser = suite.browser();
    let (tokens, callback) = (browser.login("bob").await, browser.callback());
    let hint = tokens["id_token"].as_str().expect("an ID token");
    let stray = [("id_token_hint", hint), ("post_logout_redirect_uri", "https://evil.example/")];
    let refused = browser.get("/protocol/openid-connect/logout", &stray).await;
    assert_eq!((refused.status, refused.location.as_deref()), (400, None), "{}", refused.text);
    let link = [("id_token_hint", hint), ("post_logout_redirect_uri", callback.as_str()), ("state", "gone")];
    let ended = browser.get("/protocol/openid-connect/logout", &link).await;
    assert!(ended.redirect().starts_with(&callback), "{}", ended.redirect());
    assert_eq!(parameter(ended.redirect(), "state"), "gone");
    browser.refresh(&tokens).await.refused(&[400], "invalid_grant");
}
