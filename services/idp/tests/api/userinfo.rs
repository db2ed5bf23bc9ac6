//! The user behind a token, and which tokens are refused.

use serde_json::{Value, json};
use testkit::Reply;

use crate::provider::{
    ADMIN_SECRET, CALLBACK, CRM_SECRET, OIDC, Provider, answer_of, claims_of, oauth_error, with_form,
};

async fn ask(provider: &Provider, token: &str) -> Reply {
    provider.send("GET", &format!("{OIDC}/userinfo"), |call| call.bearer(token)).await
}

fn text<'a>(tokens: &'a Value, name: &str) -> &'a str {
    tokens[name].as_str().expect("a token")
}

/// Status, error and the start of the challenge.
fn refusal(reply: &Reply) -> (u16, String) {
    let (status, error, description) = oauth_error(reply);
    let challenge = reply.header("www-authenticate");
    let whole = format!("Bearer realm=\"platform\", error=\"{error}\", error_description=\"{description}\"");
    assert_eq!(challenge, whole);
    (status, error)
}

#[tokio::test]
async fn a_person_and_a_client_are_described() {
    let provider = Provider::start().await;
    let tokens = provider.tokens("alice").await;
    let subject = claims_of(&tokens["access_token"])["sub"].clone();
    let reply = ask(&provider, text(&tokens, "access_token")).await;
    let alice = json!({
        "sub": subject, "preferred_username": "alice", "name": "Alice", "given_name": "Alice",
        "email": "alice@example.test", "email_verified": true,
    });
    assert_eq!((reply.status, &reply.body), (200, &alice));
    assert!(reply.header("cache-control").contains("no-store"));
    let form = [("access_token", text(&tokens, "access_token"))];
    let path = format!("{OIDC}/userinfo");
    assert_eq!(provider.post_form(&path, &form).await.body, alice);
    let header = text(&tokens, "access_token").to_owned();
    assert_eq!(provider.send("POST", &path, |call| call.bearer(&header)).await.body, alice);

    let form = [
        ("grant_type", "client_credentials"),
        ("client_id", "crm-backend"),
        ("client_secret", CRM_SECRET),
        ("scope", "openid"),
    ];
    let crm = provider.token(&form).await.body;
    let reply = ask(&provider, text(&crm, "access_token")).await;
    assert_eq!(reply.body["preferred_username"], "service-account-crm-backend");
}

#[tokio::test]
async fn other_tokens_are_told_nothing() {
    let provider = Provider::start().await;
    let path = format!("{OIDC}/userinfo");
    let invalid = (401, "invalid_token".to_owned());
    assert_eq!(refusal(&provider.get(&path).await), invalid);
    assert_eq!(refusal(&provider.post_form(&path, &[("x", "y")]).await), invalid);
    let tokens = provider.tokens("alice").await;
    for token in [text(&tokens, "id_token"), text(&tokens, "refresh_token"), "x.y.z"] {
        assert_eq!(refusal(&ask(&provider, token).await), invalid);
    }
    let twice = [("access_token", "a"), ("access_token", "b")];
    let (status, error, _) = oauth_error(&provider.post_form(&path, &twice).await);
    assert_eq!((status, error.as_str()), (400, "invalid_request"));
    let json = provider.send("POST", &path, |call| call.json(json!({}))).await;
    assert_eq!(json.status, 415);
    let large = "x".repeat(33 << 10);
    let large = provider.send("POST", &path, |call| with_form(call, &[("access_token", &large)])).await;
    assert_eq!(large.status, 413);

    let page = provider.open(&[("scope", "")]).await;
    let code =
        answer_of(&provider.submit(&page, "bob", "bob").await, &format!("{CALLBACK}?"))["code"].clone();
    let without_openid = provider.redeem(&code, &[]).await.body;
    let reply = ask(&provider, text(&without_openid, "access_token")).await;
    assert_eq!(refusal(&reply), (403, "insufficient_scope".to_owned()));
}

#[tokio::test]
async fn a_token_of_an_ended_session_a_disabled_user_or_the_past_is_invalid() {
    let provider = Provider::start().await;
    let invalid = (401, "invalid_token".to_owned());
    let (alice, bob) = (provider.tokens("alice").await, provider.tokens("bob").await);
    let form = [("client_id", "platform-frontend"), ("refresh_token", text(&alice, "refresh_token"))];
    assert_eq!(provider.post_form(&format!("{OIDC}/logout"), &form).await.status, 204);
    assert_eq!(refusal(&ask(&provider, text(&alice, "access_token")).await), invalid);

    let admin = provider.client_token("platform-admin", ADMIN_SECRET).await;
    let subject = claims_of(&bob["access_token"])["sub"].as_str().expect("a subject").to_owned();
    let set = async |enabled: bool| {
        let path = format!("/admin/realms/platform/users/{subject}");
        let body = json!({ "enabled": enabled });
        let reply = provider.send("PUT", &path, |call| call.bearer(&admin).json(body)).await;
        assert_eq!(reply.status, 204, "{}", reply.text);
    };
    set(false).await;
    assert_eq!(refusal(&ask(&provider, text(&bob, "access_token")).await), invalid);
    set(true).await;
    assert_eq!(refusal(&ask(&provider, text(&bob, "access_token")).await), invalid, "its session has ended");
    let bob = provider.tokens("bob").await;
    assert_eq!(ask(&provider, text(&bob, "access_token")).await.status, 200);
    provider.clock.advance(std::time::Duration::from_mins(5));
    assert_eq!(refusal(&ask(&provider, text(&bob, "access_token")).await), invalid);
}

#[tokio::test]
async fn a_token_in_the_address_is_not_read() {
    let provider = Provider::start().await;
    let tokens = provider.tokens("alice").await;
    let query = serde_urlencoded::to_string([("access_token", text(&tokens, "access_token"))]);
    let path = format!("{OIDC}/userinfo?{}", query.expect("a pair of texts"));
    let invalid = (401, "invalid_token".to_owned());
    assert_eq!(refusal(&provider.get(&path).await), invalid);
    assert_eq!(refusal(&provider.post_form(&path, &[]).await), invalid);
    assert_eq!(ask(&provider, text(&tokens, "access_token")).await.status, 200, "control");
}

#[tokio::test]
async fn a_token_is_sent_in_one_way() {
    let provider = Provider::start().await;
    let tokens = provider.tokens("alice").await;
    let token = text(&tokens, "access_token");
    let path = format!("{OIDC}/userinfo");
    let send = async |pairs: &[(&str, &str)]| {
        provider.send("POST", &path, |call| with_form(call.bearer(token), pairs)).await
    };
    assert_eq!(send(&[]).await.status, 200);
    assert_eq!(refusal(&send(&[("access_token", token)]).await), (400, "invalid_request".to_owned()));
}
