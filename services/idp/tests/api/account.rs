//! The account pages: who sees them, which forms are accepted, the password and the sessions.

use std::time::Duration;

use crate::browser::{ACCOUNT, Browser, action, field, problem};
use crate::provider::{BASE, Provider, oauth_error};

const CHOSEN: &str = "Kerze Zaun Bügel Möwe";

fn own(provider: &Provider) -> Browser<'_> {
    Browser::new(provider).with("sec-fetch-site", "same-origin").with("origin", BASE)
}

fn change_to(new: &str) -> [(&str, &str); 3] {
    [("password", "alice"), ("password-new", new), ("password-confirm", new)]
}

#[tokio::test]
async fn the_page_is_the_signed_in_users_own_and_in_the_browsers_language() {
    let provider = Provider::start().await;
    let mut browser = own(&provider).with("accept-language", "de-AT,en;q=0.5");
    let form = browser.get(ACCOUNT).await;
    assert!(form.text.contains("<html lang=\"de\">") && form.text.contains("Anmelden"), "{}", form.text);
    let page = browser.enter("alice", "alice").await;
    assert_eq!(page.status, 200);
    for part in [
        "Ihr Konto",
        "<strong>alice</strong>",
        "dieser Browser",
        "href=\"https://localhost:8443/realms/platform/account/totp\"",
    ] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    assert!(!page.text.contains("<script") && !page.text.contains("style="), "{}", page.text);
    assert!(page.header("content-security-policy").starts_with("default-src 'none'; style-src 'self';"));
    assert_eq!((page.header("referrer-policy"), page.header("x-frame-options")), ("same-origin", "DENY"));
    let english = browser.get(&format!("{ACCOUNT}?ui_locales=en")).await;
    assert!(
        english.text.contains("Your account") && english.text.contains("/account/password?ui_locales=en")
    );
    let long = format!("{ACCOUNT}?ui_locales={}", "x".repeat(65));
    assert_eq!(browser.get(&long).await.status, 400);
    let done = browser.get(&format!("{ACCOUNT}?done=%3Cb%3E")).await;
    assert!(!done.text.contains("<b>") && !done.text.contains("role=\"status\""));
}

#[tokio::test]
async fn a_password_is_changed_with_the_present_one_and_other_sessions_end() {
    let provider = Provider::start().await;
    let elsewhere = provider.tokens("alice").await;
    let (mut browser, mut other) = (own(&provider), own(&provider));
    let page = browser.enter("alice", "alice").await;
    other.enter("alice", "alice").await;
    for (pairs, why) in [
        (
            [("password", "wrong"), ("password-new", CHOSEN), ("password-confirm", CHOSEN)],
            "current password is wrong",
        ),
        (change_to("alice12345"), "easy to guess"),
        (change_to("123456789"), "at least 10"),
    ] {
        let again = browser.change(&page, "password", &pairs).await;
        assert!(problem(&again).contains(why), "{}", again.text);
    }
    assert_eq!(provider.audited("user.password_changed").await, 0);
    let changed = browser.change(&page, "password", &change_to(CHOSEN)).await;
    assert_eq!(
        (changed.status, changed.header("location")),
        (302, &*format!("{BASE}{ACCOUNT}?done=password"))
    );
    let page = browser.get(changed.header("location")).await;
    assert!(page.text.contains("Your password has been changed."), "this session continues: {}", page.text);
    assert!(other.get(ACCOUNT).await.text.contains("kc-form-login"), "the other one has ended");
    assert_eq!(oauth_error(&provider.refresh(&elsewhere).await).2, "Session not active");
    assert!(problem(&other.sign_in("alice", "alice").await).contains("Invalid"));
    assert_eq!(other.sign_in("alice", CHOSEN).await.status, 302);
    assert_eq!(provider.audited("user.password_changed").await, 1);
}

#[tokio::test]
async fn wrong_present_passwords_are_delayed_as_those_of_the_login() {
    let provider = Provider::start().await;
    let mut browser = own(&provider);
    let page = browser.enter("alice", "alice").await;
    let wrong = [("password", "wrong"), ("password-new", CHOSEN), ("password-confirm", CHOSEN)];
    for _ in 0..5 {
        problem(&browser.change(&page, "password", &wrong).await);
    }
    assert!(problem(&browser.change(&page, "password", &change_to(CHOSEN)).await).contains("is wrong"));
    provider.clock.advance(Duration::from_secs(2));
    assert_eq!(browser.change(&page, "password", &change_to(CHOSEN)).await.status, 302);
}

#[tokio::test]
async fn forms_from_elsewhere_are_refused() {
    let provider = Provider::start().await;
    let mut browser = own(&provider);
    let page = browser.enter("alice", "alice").await;
    for (name, value) in
        [("sec-fetch-site", "cross-site"), ("sec-fetch-site", "same-site"), ("origin", "https://evil.test")]
    {
        browser = browser.with(name, value);
        for path in ["password", "totp/remove", "recovery-codes", "totp", "sessions/end", "sessions/end-all"]
        {
            let reply = browser.change(&page, path, &change_to(CHOSEN)).await;
            assert_eq!(reply.status, 403, "{name}: {value} {path}");
        }
        browser = browser.with("sec-fetch-site", "same-origin").with("origin", BASE);
    }
    let mut bob = own(&provider);
    let theirs = bob.enter("bob", "bob").await;
    for path in ["password", "totp/remove", "recovery-codes", "totp", "sessions/end", "sessions/end-all"] {
        assert_eq!(browser.change(&theirs, path, &change_to(CHOSEN)).await.status, 403, "{path}");
        let bare = browser.post(&format!("{ACCOUNT}/{path}"), &change_to(CHOSEN)).await;
        assert_eq!(bare.status, 403, "{path}");
    }
    let refused = browser.change(&theirs, "password", &change_to(CHOSEN)).await;
    assert!(
        refused.text.contains("kc-error-message") && refused.text.contains("href=\"/\""),
        "{}",
        refused.text
    );
    provider.clock.advance(Duration::from_mins(20));
    assert_eq!(browser.change(&page, "password", &change_to(CHOSEN)).await.status, 302);
    let mut browser = own(&provider);
    browser.enter("alice", CHOSEN).await;
    assert_eq!(browser.change(&page, "sessions/end-all", &[]).await.status, 403, "of an earlier session");
}

#[tokio::test]
async fn sessions_are_seen_and_ended() {
    let provider = Provider::start().await;
    let firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
    let mut browser = own(&provider).with("user-agent", firefox).with("x-forwarded-for", "203.0.113.9");
    let mut other = own(&provider).with("user-agent", "curl/8");
    let mut bob = own(&provider);
    let theirs = bob.enter("bob", "bob").await;
    other.enter("alice", "alice").await;
    provider.clock.advance(Duration::from_secs(1));
    let page = browser.enter("alice", "alice").await;
    assert_eq!(page.text.matches("<li>").count(), 2, "{}", page.text);
    for part in ["Firefox, Linux (this browser)", "203.0.113.9", "Unknown browser"] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    let ids: Vec<&str> = page.text.split("name=\"session\" type=\"hidden\" value=\"").skip(1).collect();
    let ids: Vec<&str> = ids.into_iter().filter_map(|rest| rest.split('"').next()).collect();
    let foreign = field(&theirs, "session");
    for session in [foreign.as_str(), ids[1]] {
        let ended = browser.change(&page, "sessions/end", &[("session", session)]).await;
        assert_eq!(ended.header("location"), format!("{BASE}{ACCOUNT}?done=session"));
    }
    assert!(bob.get(ACCOUNT).await.text.contains("Your account"), "another user's session stays");
    assert!(other.get(ACCOUNT).await.text.contains("kc-form-login"));
    assert_eq!(browser.change(&page, "sessions/end", &[("session", "x")]).await.status, 400);
    let left = browser.change(&page, "sessions/end", &[("session", ids[0])]).await;
    assert!(left.status == 200 && left.text.contains("You are signed out"), "{}", left.text);
    assert!(browser.get(ACCOUNT).await.text.contains("kc-form-login"));
    assert_eq!(provider.audited("session.ended").await, 2);
}

#[tokio::test]
async fn all_sessions_are_ended_at_once() {
    let provider = Provider::start().await;
    let tokens = provider.tokens("alice").await;
    let mut browser = own(&provider);
    let page = browser.enter("alice", "alice").await;
    let left = browser.change(&page, "sessions/end-all", &[]).await;
    assert!(left.text.contains("You are signed out"), "{}", left.text);
    assert!(left.text.contains(&format!("href=\"{BASE}{ACCOUNT}\"")), "{}", left.text);
    assert_eq!(oauth_error(&provider.refresh(&tokens).await).2, "Session not active");
    let form = browser.get(ACCOUNT).await;
    assert!(action(&form, "kc-form-login").contains("client_id=account"));
}
