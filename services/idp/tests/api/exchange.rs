//! Redeeming a code: once, in time, by the client that requested it.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use data_encoding::HEXLOWER;
use ring::digest::{SHA256, digest};

use crate::provider::{
    ADMIN_SECRET, BASE, CALLBACK, CRM_SECRET, OIDC, Provider, answer_of, expected, oauth_error,
};

const NOT_VALID: &str = "Code not valid";

#[tokio::test]
async fn each_mismatch_is_refused_and_uses_the_code_up() {
    let provider = Provider::start().await;
    let other = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXX";
    for (change, description) in [
        (("redirect_uri", ""), "Incorrect redirect_uri"),
        (("redirect_uri", "https://localhost:8443/"), "Incorrect redirect_uri"),
        (("code_verifier", ""), "PKCE code verifier not specified"),
        (("code_verifier", "short"), "PKCE verification failed: Invalid code verifier"),
        (("code_verifier", other), "PKCE verification failed: Code mismatch"),
    ] {
        let code = provider.login("alice", "alice").await["code"].clone();
        let refused = provider.redeem(&code, &[change]).await;
        assert_eq!(oauth_error(&refused), expected(400, "invalid_grant", description));
        let again = provider.redeem(&code, &[]).await;
        assert_eq!(oauth_error(&again), expected(400, "invalid_grant", NOT_VALID), "{description}");
    }
    assert_eq!(provider.audited("code.refused").await, 5);
    assert_eq!(provider.audited("session.tokens_issued").await, 0);
}

#[tokio::test]
async fn another_client_cannot_redeem_a_code() {
    let provider = Provider::start().await;
    let code = provider.login("alice", "alice").await["code"].clone();
    let theirs = [("client_id", "crm-backend"), ("client_secret", CRM_SECRET)];
    let refused = provider.redeem(&code, &theirs).await;
    assert_eq!(oauth_error(&refused), expected(400, "invalid_grant", "Auth error"));
}

#[tokio::test]
async fn a_code_lives_a_minute() {
    let provider = Provider::start().await;
    let code = provider.login("alice", "alice").await["code"].clone();
    provider.clock.advance(Duration::from_secs(59));
    assert_eq!(provider.redeem(&code, &[]).await.status, 200);
    let code = provider.login("alice", "alice").await["code"].clone();
    provider.clock.advance(Duration::from_mins(1));
    let late = provider.redeem(&code, &[]).await;
    assert_eq!(oauth_error(&late), expected(400, "invalid_grant", "Code is expired"));
}

#[tokio::test]
async fn a_code_used_again_ends_its_session() {
    let provider = Provider::start().await;
    let code = provider.login("alice", "alice").await["code"].clone();
    let tokens = provider.redeem(&code, &[]).await.body;
    let again = provider.redeem(&code, &[]).await;
    assert_eq!(oauth_error(&again), expected(400, "invalid_grant", NOT_VALID));
    let refreshed = provider.refresh(&tokens).await;
    assert_eq!(oauth_error(&refreshed), expected(400, "invalid_grant", "Session not active"));
    assert_eq!(provider.audited("session.revoked").await, 1);
    let third = provider.redeem(&code, &[]).await;
    assert_eq!(oauth_error(&third), expected(400, "invalid_grant", NOT_VALID));
}

#[tokio::test]
async fn a_code_used_again_without_its_verifier_ends_nothing() {
    let provider = Provider::start().await;
    let code = provider.login("alice", "alice").await["code"].clone();
    let tokens = provider.redeem(&code, &[]).await.body;
    let other = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXX";
    let theirs = [("client_id", "crm-backend"), ("client_secret", CRM_SECRET)];
    for changes in
        [&[("code_verifier", other)][..], &[("code_verifier", "")], &[("redirect_uri", BASE)], &theirs]
    {
        let again = provider.redeem(&code, changes).await;
        assert_eq!(oauth_error(&again), expected(400, "invalid_grant", NOT_VALID));
    }
    assert_eq!(provider.audited("session.revoked").await, 0);
    assert_eq!(provider.refresh(&tokens).await.status, 200, "whoever saw the code ends no session");
}

#[tokio::test]
async fn of_two_exchanges_at_once_exactly_one_succeeds() {
    let provider = Provider::start().await;
    for _ in 0..20 {
        let code = provider.login("alice", "alice").await["code"].clone();
        let (left, right) = tokio::join!(provider.redeem(&code, &[]), provider.redeem(&code, &[]));
        let mut found = [left.status, right.status];
        found.sort_unstable();
        assert_eq!(found, [200, 400], "{} {}", left.text, right.text);
        let tokens = if left.status == 200 { left.body } else { right.body };
        assert_eq!(provider.refresh(&tokens).await.status, 400, "the session ended with the second use");
    }
}

#[tokio::test]
async fn an_unknown_or_missing_code_is_refused() {
    let provider = Provider::start().await;
    let missing = provider.redeem("", &[("code", "")]).await;
    assert_eq!(oauth_error(&missing), expected(400, "invalid_request", "Missing parameter: code"));
    for unknown in ["x", &"x".repeat(20_000)] {
        let refused = provider.redeem(unknown, &[]).await;
        assert_eq!(oauth_error(&refused), expected(400, "invalid_grant", NOT_VALID));
    }
}

#[tokio::test]
async fn a_verifier_has_43_to_128_unreserved_characters() {
    let provider = Provider::start().await;
    let invalid = expected(400, "invalid_grant", "PKCE verification failed: Invalid code verifier");
    for (verifier, is_taken) in [
        ("a".repeat(42), false),
        ("a".repeat(43), true),
        ("aZ09-._~".repeat(16), true),
        ("a".repeat(129), false),
        ("a+".repeat(30), false),
    ] {
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()));
        let page = provider.open(&[("code_challenge", challenge.as_str())]).await;
        let answer = answer_of(&provider.submit(&page, "alice", "alice").await, &format!("{CALLBACK}?"));
        let reply = provider.redeem(&answer["code"], &[("code_verifier", verifier.as_str())]).await;
        if is_taken {
            assert_eq!(reply.status, 200, "{verifier}: {}", reply.text);
        } else {
            assert_eq!(oauth_error(&reply), invalid, "{verifier}");
        }
    }
}

#[tokio::test]
async fn the_access_token_of_a_code_used_again_opens_userinfo_no_more() {
    let provider = Provider::start().await;
    let code = provider.login("alice", "alice").await["code"].clone();
    let tokens = provider.redeem(&code, &[]).await.body;
    let token = tokens["access_token"].as_str().expect("a token");
    let path = format!("{OIDC}/userinfo");
    let ask = async || provider.send("GET", &path, |call| call.bearer(token)).await.status;
    assert_eq!(ask().await, 200);
    assert_eq!(provider.redeem(&code, &[]).await.status, 400);
    assert_eq!(ask().await, 401);
}

#[tokio::test]
async fn codes_tokens_and_secrets_are_long_and_stored_as_digests_alone() {
    let provider = Provider::start().await;
    let (first, second) = (provider.login("alice", "alice").await, provider.login("alice", "alice").await);
    assert_eq!((first["code"].len(), second["code"].len()), (43, 43), "256 bits");
    assert_ne!(first["code"], second["code"]);
    let tokens = provider.redeem(&first["code"], &[]).await.body;
    provider.client_token("crm-backend", CRM_SECRET).await;
    let stored = provider.everything().await;
    assert!(stored.contains(&first["session_state"]), "the search finds the session");
    let text = |name: &str| tokens[name].as_str().expect("a token");
    for secret in [
        &*first["code"],
        &*second["code"],
        text("access_token"),
        text("refresh_token"),
        text("id_token"),
        CRM_SECRET,
        ADMIN_SECRET,
    ] {
        assert!(
            !stored.contains(secret) && !stored.contains(&HEXLOWER.encode(secret.as_bytes())),
            "{secret}"
        );
    }
}
