//! Refresh tokens: their lifetime, single use and client.

use std::time::Duration;

use serde_json::Value;

use crate::provider::{CALLBACK, CRM_SECRET, Provider, answer_of, claims_of, expected, oauth_error};

#[tokio::test]
async fn a_refresh_gives_new_tokens_of_the_same_session() {
    let provider = Provider::start().await;
    let tokens = provider.tokens("alice").await;
    provider.clock.advance(Duration::from_secs(200));
    let refreshed = provider.refresh(&tokens).await;
    assert_eq!(refreshed.status, 200, "{}", refreshed.text);
    let (before, after) = (claims_of(&tokens["access_token"]), claims_of(&refreshed.body["access_token"]));
    for same in ["sub", "sid", "auth_time", "scope", "azp", "preferred_username"] {
        assert_eq!(before[same], after[same], "{same}");
    }
    assert_eq!(after["iat"].as_i64(), before["iat"].as_i64().map(|at| at + 200));
    assert_ne!(before["jti"], after["jti"]);
    assert_eq!(claims_of(&refreshed.body["id_token"])["nonce"], "a nonce");
    assert_eq!(refreshed.header("cache-control"), "no-store");
    assert_eq!(provider.audited("session.refreshed").await, 1);
}

#[tokio::test]
async fn a_session_ends_after_half_an_hour_without_a_refresh_and_after_ten_hours_anyway() {
    let provider = Provider::start().await;
    let idle = provider.tokens("alice").await;
    assert_eq!(idle["refresh_expires_in"], 1_800);
    let mut kept = provider.tokens("alice").await;
    provider.clock.advance(Duration::from_secs(1_799));
    kept = provider.refresh(&kept).await.body;
    provider.clock.advance(Duration::from_secs(1));
    let refused = provider.refresh(&idle).await;
    assert_eq!(oauth_error(&refused), expected(400, "invalid_grant", "Token is not active"));

    kept = provider.refresh(&kept).await.body;
    for _ in 0..19 {
        provider.clock.advance(Duration::from_secs(1_799));
        kept = provider.refresh(&kept).await.body;
    }
    assert_eq!(kept["refresh_expires_in"], 36_000 - 20 * 1_799 - 1, "cut to the end of the session");
    provider.clock.advance(Duration::from_secs(20));
    let refused = provider.refresh(&kept).await;
    assert_eq!(oauth_error(&refused), expected(400, "invalid_grant", "Token is not active"));
}

#[tokio::test]
async fn a_refresh_repeated_within_ten_seconds_gives_the_same_tokens_and_a_later_one_ends_the_session() {
    let provider = Provider::start().await;
    let first = provider.tokens("alice").await;
    let second = provider.refresh(&first).await.body;
    provider.clock.advance(Duration::from_secs(10));
    let repeated = provider.refresh(&first).await;
    assert_eq!((repeated.status, &repeated.body), (200, &second));
    assert_eq!(provider.audited("session.refreshed").await, 1, "nothing changed");

    provider.clock.advance(Duration::from_secs(1));
    let reused = provider.refresh(&first).await;
    assert_eq!(oauth_error(&reused), reuse_refused());
    let after = provider.refresh(&second).await;
    assert_eq!(oauth_error(&after), expected(400, "invalid_grant", "Session not active"));
    assert_eq!(provider.audited("session.revoked").await, 1);
}

#[tokio::test]
async fn only_the_token_that_was_replaced_last_may_be_repeated() {
    let provider = Provider::start().await;
    let first = provider.tokens("alice").await;
    let second = provider.refresh(&first).await.body;
    let third = provider.refresh(&second).await.body;
    assert_eq!(provider.refresh(&second).await.body, third);
    assert_eq!(oauth_error(&provider.refresh(&first).await), reuse_refused());
}

#[tokio::test]
async fn a_repeated_refresh_of_a_disabled_user_is_refused() {
    let provider = Provider::start().await;
    let first = provider.tokens("alice").await;
    assert_eq!(provider.refresh(&first).await.status, 200);
    let disable = "UPDATE idp.users SET enabled = false WHERE username = 'alice'";
    sqlx::query(disable).execute(&provider.database.owner_pool()).await.expect("the users");
    let refused = provider.refresh(&first).await;
    assert_eq!(oauth_error(&refused), expected(400, "invalid_grant", "User disabled"));
}

#[tokio::test]
async fn refreshes_at_once_get_the_same_tokens() {
    let provider = Provider::start().await;
    let tokens = provider.tokens("alice").await;
    let all = futures_util::future::join_all((0..8).map(|_| provider.refresh(&tokens))).await;
    assert!(all.iter().all(|reply| reply.status == 200 && reply.body == all[0].body), "{all:?}");
    assert_eq!(provider.audited("session.refreshed").await, 1);
    assert_eq!(provider.refresh(&all[0].body).await.status, 200);
}

fn reuse_refused() -> (u16, String, String) {
    expected(400, "invalid_grant", "Maximum allowed refresh token reuse exceeded")
}

#[tokio::test]
async fn what_is_no_refresh_token_of_this_client_is_refused() {
    let provider = Provider::start().await;
    let tokens = provider.tokens("alice").await;
    let form = |client: &'static str, token: &Value| {
        let token = token.as_str().expect("a token").to_owned();
        [
            ("grant_type", "refresh_token".to_owned()),
            ("client_id", client.to_owned()),
            ("client_secret", CRM_SECRET.to_owned()),
            ("refresh_token", token),
        ]
    };
    let forged = Value::from(format!("{}x", tokens["refresh_token"].as_str().expect("a token")));
    let other_client = "Invalid refresh token. Token client and authorized client don't match";
    for (client, token, description) in [
        ("platform-frontend", &tokens["access_token"], "Invalid refresh token"),
        ("platform-frontend", &Value::from("x"), "Invalid refresh token"),
        ("platform-frontend", &forged, "Invalid refresh token"),
        ("crm-backend", &tokens["refresh_token"], other_client),
    ] {
        let pairs = form(client, token);
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(oauth_error(&provider.token(&pairs).await), expected(400, "invalid_grant", description));
    }
    let missing =
        provider.token(&[("grant_type", "refresh_token"), ("client_id", "platform-frontend")]).await;
    assert_eq!(oauth_error(&missing), expected(400, "invalid_request", "No refresh token"));
    assert_eq!(provider.refresh(&tokens).await.status, 200, "none of these ended the session");
}

#[tokio::test]
async fn an_id_token_of_a_refresh_is_about_the_same_login() {
    let provider = Provider::start().await;
    let tokens = provider.tokens("alice").await;
    provider.clock.advance(Duration::from_secs(200));
    let refreshed = provider.refresh(&tokens).await.body;
    let (before, after) = (claims_of(&tokens["id_token"]), claims_of(&refreshed["id_token"]));
    for same in ["iss", "sub", "aud", "azp", "auth_time", "sid", "nonce"] {
        assert!(!before[same].is_null(), "{same}");
        assert_eq!(before[same], after[same], "{same}");
    }
    assert_eq!(after["iat"].as_i64(), before["iat"].as_i64().map(|at| at + 200));
    assert_ne!(before["at_hash"], after["at_hash"]);
}

#[tokio::test]
async fn a_refresh_never_widens_the_scope() {
    let provider = Provider::start().await;
    let page = provider.open(&[("scope", "")]).await;
    let answer = answer_of(&provider.submit(&page, "alice", "alice").await, &format!("{CALLBACK}?"));
    let mut tokens = provider.redeem(&answer["code"], &[]).await.body;
    for scope in ["openid", "openid root"] {
        let reply = provider
            .token(&[
                ("grant_type", "refresh_token"),
                ("client_id", "platform-frontend"),
                ("refresh_token", tokens["refresh_token"].as_str().expect("a refresh token")),
                ("scope", scope),
            ])
            .await;
        assert_eq!((reply.status, &reply.body["scope"]), (200, &Value::from("email profile")), "{scope}");
        assert!(reply.body.get("id_token").is_none(), "{scope}");
        assert_eq!(claims_of(&reply.body["access_token"])["scope"], "email profile", "{scope}");
        tokens = reply.body;
    }
}
