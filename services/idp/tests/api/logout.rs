//! Logout: which session ends, where the browser goes, what is refused.

use testkit::Reply;

use crate::browser::ACCOUNT;
use crate::provider::{BASE, CALLBACK, CRM_SECRET, OIDC, Provider, expected, oauth_error, with_form};

fn query(pairs: &[(&str, &str)]) -> String {
    format!("{OIDC}/logout?{}", serde_urlencoded::to_string(pairs).expect("pairs of texts"))
}

async fn ended(provider: &Provider, tokens: &serde_json::Value) -> bool {
    let refused = expected(400, "invalid_grant", "Session not active");
    oauth_error(&provider.refresh(tokens).await) == refused
}

fn says(reply: &Reply, problem: &str) {
    assert_eq!(reply.status, 400, "{}", reply.text);
    assert!(reply.text.contains(problem), "{}", reply.text);
}

#[tokio::test]
async fn an_id_token_ends_its_session_and_the_browser_goes_back() {
    let provider = Provider::start().await;
    let (tokens, other) = (provider.tokens("alice").await, provider.tokens("alice").await);
    let hint = tokens["id_token"].as_str().expect("an ID token");
    provider.clock.advance(std::time::Duration::from_mins(10));
    let link = query(&[("id_token_hint", hint), ("post_logout_redirect_uri", CALLBACK), ("state", "a & b")]);
    let reply = provider.get(&link).await;
    assert_eq!(reply.status, 302, "{}", reply.text);
    assert_eq!(reply.header("location"), format!("{CALLBACK}?state=a+%26+b"));
    assert!(ended(&provider, &tokens).await);
    assert_eq!(provider.refresh(&other).await.status, 200, "another session of the same person continues");
    assert_eq!(provider.get(&link).await.status, 302, "repeating it is not an error");
    assert_eq!(provider.audited("session.ended").await, 1);
}

#[tokio::test]
async fn without_an_address_there_is_a_page() {
    let provider = Provider::start().await;
    let tokens = provider.tokens("alice").await;
    let hint = tokens["id_token"].as_str().expect("an ID token");
    let form = [("id_token_hint", hint), ("client_id", "platform-frontend")];
    let reply = provider.post_form(&format!("{OIDC}/logout"), &form).await;
    assert_eq!(reply.status, 200);
    assert!(reply.text.contains("You are signed out"), "{}", reply.text);
    assert_eq!(reply.header("x-frame-options"), "DENY");
    assert!(ended(&provider, &tokens).await);
}

#[tokio::test]
async fn who_names_no_session_ends_none() {
    let provider = Provider::start().await;
    let tokens = provider.tokens("alice").await;
    assert_eq!(provider.get(&query(&[])).await.status, 200);
    let pairs = [("client_id", "platform-frontend"), ("post_logout_redirect_uri", CALLBACK)];
    assert_eq!(provider.get(&query(&pairs)).await.header("location"), CALLBACK);
    assert_eq!(provider.refresh(&tokens).await.status, 200);
}

#[tokio::test]
async fn a_refused_logout_ends_nothing_and_never_redirects() {
    let provider = Provider::start().await;
    let tokens = provider.tokens("alice").await;
    let text = |name: &str| tokens[name].as_str().expect("a token");
    let hint = text("id_token");
    let forged = format!("{hint}x");
    let unregistered = "https://localhost:8443/callback/";
    for (pairs, problem) in [
        (vec![("id_token_hint", forged.as_str())], "Invalid parameter: id_token_hint"),
        (vec![("id_token_hint", text("access_token"))], "Invalid parameter: id_token_hint"),
        (vec![("id_token_hint", text("refresh_token"))], "Invalid parameter: id_token_hint"),
        (vec![("id_token_hint", hint), ("id_token_hint", hint)], "Duplicated parameter: id_token_hint"),
        (vec![("id_token_hint", hint), ("client_id", "crm-backend")], "Invalid parameter: client_id"),
        (vec![("id_token_hint", hint), ("post_logout_redirect_uri", unregistered)], "Invalid redirect uri"),
        (vec![("id_token_hint", hint), ("state", "\u{e4}")], "Invalid parameter: state"),
        (vec![("post_logout_redirect_uri", CALLBACK)], "Missing parameters: id_token_hint"),
        (vec![("client_id", "nobody"), ("post_logout_redirect_uri", CALLBACK)], "Client not found."),
        (vec![("client_id", "crm-backend"), ("post_logout_redirect_uri", CALLBACK)], "Invalid redirect uri"),
    ] {
        says(&provider.get(&query(&pairs)).await, problem);
        says(&provider.post_form(&format!("{OIDC}/logout"), &pairs).await, problem);
    }
    assert_eq!(provider.refresh(&tokens).await.status, 200);
}

#[tokio::test]
async fn a_client_gives_its_refresh_token_back() {
    let provider = Provider::start().await;
    let tokens = provider.tokens("alice").await;
    let refresh_token = tokens["refresh_token"].as_str().expect("a refresh token");
    let path = format!("{OIDC}/logout");
    let give = async |pairs: &[(&str, &str)]| provider.post_form(&path, pairs).await;
    let unknown = give(&[("client_id", "nobody"), ("refresh_token", refresh_token)]).await;
    assert_eq!(oauth_error(&unknown).0, 401);
    let invalid = expected(400, "invalid_grant", "Invalid refresh token");
    let foreign =
        [("client_id", "crm-backend"), ("client_secret", CRM_SECRET), ("refresh_token", refresh_token)];
    assert_eq!(oauth_error(&give(&foreign).await), invalid);
    let garbage = [("client_id", "platform-frontend"), ("refresh_token", "x.y.z")];
    assert_eq!(oauth_error(&give(&garbage).await), invalid);
    // Even a replaced token ends the session, because a logout only takes access away.
    let next = provider.refresh(&tokens).await;
    assert_eq!(next.status, 200);
    let own = [("client_id", "platform-frontend"), ("refresh_token", refresh_token)];
    assert_eq!(give(&own).await.status, 204);
    assert!(ended(&provider, &next.body).await);
    assert_eq!(give(&own).await.status, 204, "repeating it is not an error");
    let json = provider.send("POST", &path, |call| call.json(serde_json::json!({}))).await;
    assert_eq!(json.status, 415);
    let large = "x".repeat(33 << 10);
    let large = provider.send("POST", &path, |call| with_form(call, &[("state", &large)])).await;
    assert_eq!(large.status, 413);
}

#[tokio::test]
async fn the_page_is_in_the_language_that_the_client_asks_for() {
    let provider = Provider::start().await;
    for (locales, text, sent_on) in
        [("de", "Sie sind abgemeldet", "de"), ("xx en", "You are signed out", "xx+en")]
    {
        let page = provider.get(&query(&[("ui_locales", locales)])).await;
        assert!(page.status == 200 && page.text.contains(text), "{locales}: {}", page.text);
        let again = format!("href=\"{BASE}{ACCOUNT}?ui_locales={sent_on}\"");
        assert!(page.text.contains(&again), "{locales}: {}", page.text);
    }
}
