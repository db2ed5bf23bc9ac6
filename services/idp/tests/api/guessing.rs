//! Guessing passwords, and logging in by e-mail address.

use std::time::Duration;

use testkit::Reply;

use crate::provider::{Provider, action_of, cookie_of};

/// The reason that the form shows.
fn problem(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.text);
    let shown = reply.text.split("id=\"input-error\"").nth(1).and_then(|text| text.split("</p>").next());
    shown.expect("the reason").to_owned()
}

async fn reasons(provider: &Provider) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT payload->>'reason' FROM audit.idp__events WHERE action = 'login.failed' ORDER BY seq",
    )
    .fetch_all(&provider.database.owner_pool())
    .await
    .expect("the audit table")
}

#[tokio::test]
async fn thirty_wrong_passwords_close_an_account_for_a_minute_without_saying_so() {
    let provider = Provider::start().await;
    let page = provider.open(&[]).await;
    let (action, cookie) = (action_of(&page), cookie_of(&page));
    let submit =
        async |name: &str, password: &str| provider.submit_to(&action, &cookie, name, password).await;
    for attempt in 0..30 {
        let name = if attempt % 2 == 0 { "alice" } else { "Alice@Example.test" };
        problem(&submit(name, "wrong").await);
    }
    let closed = problem(&submit("alice", "alice").await);
    assert_eq!(closed, problem(&submit("nobody", "alice").await), "as an unknown name is refused");
    assert_eq!(submit("bob", "bob").await.status, 302, "others log in");
    provider.clock.advance(Duration::from_secs(59));
    assert_eq!(problem(&submit("alice@example.test", "alice").await), closed, "by no other name either");
    provider.clock.advance(Duration::from_secs(1));
    assert_eq!(submit("alice", "alice").await.status, 302);

    let reasons = reasons(&provider).await;
    let delayed = reasons.iter().filter(|reason| *reason == "too_many_failures").count();
    assert_eq!((reasons.len(), delayed), (33, 2));
    let metrics = provider.get("/metrics").await.text;
    let counted = "platform_idp_logins_total{outcome=\"delayed\",service=\"idp\"} 2";
    assert!(metrics.contains(counted), "{metrics}");
}

#[tokio::test]
async fn thirty_attempts_at_once_are_all_counted() {
    let provider = Provider::start().await;
    let page = provider.open(&[]).await;
    let (action, cookie) = (action_of(&page), cookie_of(&page));
    let wrong = (0..30).map(|_| provider.submit_to(&action, &cookie, "alice", "wrong"));
    for reply in futures_util::future::join_all(wrong).await {
        problem(&reply);
    }
    problem(&provider.submit_to(&action, &cookie, "alice", "alice").await);
}

#[tokio::test]
async fn an_e_mail_address_is_a_login_name() {
    let provider = Provider::start().await;
    provider.login(" Alice@EXAMPLE.test ", "alice").await;
    let page = provider.open(&[]).await;
    for name in ["alice@example.tes", "@", "alice@", "bob@example.test"] {
        problem(&provider.submit(&page, name, "alice").await);
    }
}
