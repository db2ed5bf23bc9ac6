//! The login form: what it shows, accepts and refuses.

use serde_json::json;

use crate::provider::{
    CALLBACK, ISSUER, OIDC, Provider, action_of, answer_of, auth_query, claims_of, cookie_of, with_form,
};

#[tokio::test]
async fn a_login_gives_a_code_and_the_code_gives_tokens() {
    let provider = Provider::start().await;
    let page = provider.open(&[]).await;
    let cookie = page.header("set-cookie");
    assert!(
        cookie.starts_with("AUTH_SESSION_ID=")
            && cookie.ends_with("; Path=/realms/platform/; HttpOnly; Secure; SameSite=Lax"),
        "{cookie}"
    );
    for name in ["name=\"username\"", "name=\"password\"", "type=\"submit\""] {
        assert!(page.text.contains(name), "{name}");
    }
    let action = action_of(&page);
    for part in ["session_code=", "&execution=", "&client_id=platform-frontend", "&tab_id="] {
        assert!(action.contains(part), "{action}");
    }
    let reply = provider.submit(&page, "alice", "alice").await;
    let answer = answer_of(&reply, &format!("{CALLBACK}?"));
    assert_eq!((answer["state"].as_str(), answer["iss"].as_str()), ("a state & more", ISSUER));

    let tokens = provider.redeem(&answer["code"], &[]).await.body;
    let access = claims_of(&tokens["access_token"]);
    assert_eq!(access["aud"], json!(["platform-api", "account"]));
    assert_eq!(access["sid"], json!(answer["session_state"]));
    assert_eq!(access["preferred_username"], "alice");
    assert_eq!(access["scope"], "openid email profile");
    assert_eq!(claims_of(&tokens["id_token"])["nonce"], "a nonce");
    let rows = provider.audit().await;
    let actions: Vec<&str> = rows.iter().map(|(_, action, _)| action.as_str()).collect();
    assert_eq!(actions[actions.len() - 2..], ["login.succeeded", "session.tokens_issued"]);
    let (actor, _, subject) = rows.last().expect("rows");
    assert_eq!(actor, access["sub"].as_str().expect("a subject"));
    assert_eq!(subject, &format!("session:{}", answer["session_state"]));
}

#[tokio::test]
async fn a_form_without_openid_gives_no_id_token_and_one_sent_by_post_works() {
    let provider = Provider::start().await;
    let query = auth_query(&[("scope", ""), ("state", ""), ("nonce", "")]);
    let page = provider
        .send("POST", &format!("{OIDC}/auth"), |call| {
            call.header("content-type", "application/x-www-form-urlencoded").body(query)
        })
        .await;
    let answer = answer_of(&provider.submit(&page, "alice", "alice").await, &format!("{CALLBACK}?"));
    assert!(!answer.contains_key("state"));
    let tokens = provider.redeem(&answer["code"], &[]).await.body;
    assert_eq!((tokens["scope"].as_str(), tokens.get("id_token")), (Some("email profile"), None));
}

#[tokio::test]
async fn the_answer_may_stand_in_the_fragment() {
    let provider = Provider::start().await;
    let page = provider.open(&[("response_mode", "fragment")]).await;
    let reply = provider.submit(&page, "alice", "alice").await;
    assert!(answer_of(&reply, &format!("{CALLBACK}#")).contains_key("code"));
}

#[tokio::test]
async fn a_wrong_password_and_an_unknown_name_are_refused_alike() {
    let provider = Provider::start().await;
    let mut shown = Vec::new();
    for (name, password) in [
        ("alice", "wrong"),
        ("alice", ""),
        ("nobody", "alice"),
        ("", ""),
        ("service-account-crm-backend", ""),
        ("service-account-crm-backend", "crm"),
    ] {
        let page = provider.open(&[]).await;
        let again = provider.submit(&page, name, password).await;
        assert_eq!(again.status, 200);
        let problem =
            again.text.split("id=\"input-error\"").nth(1).and_then(|text| text.split("</p>").next());
        shown.push(problem.expect("the reason").to_owned());
        assert!(action_of(&again).contains("session_code="), "the form can be filled in again");
    }
    assert!(shown.iter().all(|problem| problem.contains("Invalid username or password.")), "{shown:?}");
    assert_eq!(provider.failures("credentials").await, 6);
    assert_eq!(provider.audited("login.succeeded").await, 0);
}

#[tokio::test]
async fn the_form_shown_again_takes_the_right_password() {
    let provider = Provider::start().await;
    let page = provider.open(&[("login_hint", "\"><b>alice")]).await;
    assert!(page.text.contains("value=\"&quot;&gt;&lt;b&gt;alice\""), "{}", page.text);
    let again = provider.submit(&page, "alice", "wrong").await;
    let reply = provider.submit(&again, "  ALICE ", "alice").await;
    assert_eq!(reply.status, 302, "names are compared in lower case");
}

#[tokio::test]
async fn a_form_belongs_to_the_browser_it_was_shown_to() {
    let provider = Provider::start().await;
    let (mine, theirs) = (provider.open(&[]).await, provider.open(&[]).await);
    let (action, cookie) = (action_of(&mine), cookie_of(&mine));
    for foreign in [String::new(), cookie_of(&theirs), "AUTH_SESSION_ID=x".to_owned()] {
        let reply = provider.submit_to(&action, &foreign, "alice", "alice").await;
        assert_eq!(reply.status, 400, "{foreign}");
        assert!(reply.text.contains("kc-error-message"), "{}", reply.text);
    }
    let second_tab = provider
        .send("GET", &format!("{OIDC}/auth?{}", auth_query(&[])), |call| call.header("cookie", &*cookie))
        .await;
    assert_eq!(cookie_of(&second_tab), cookie, "one browser keeps one cookie");
    let reopened = provider.send("GET", &action, |call| call.header("cookie", &*cookie)).await;
    assert_eq!(provider.get(&action).await.status, 400, "not without the cookie");
    for page in [&mine, &second_tab, &reopened] {
        assert_eq!(provider.submit_to(&action_of(page), &cookie, "alice", "alice").await.status, 302);
    }
}

#[tokio::test]
async fn a_forged_or_altered_form_is_refused() {
    let provider = Provider::start().await;
    let page = provider.open(&[]).await;
    let (action, cookie) = (action_of(&page), cookie_of(&page));
    let altered = [
        "/realms/platform/login-actions/authenticate".to_owned(),
        action.replace("session_code=", "session_code=x"),
        action.replace("client_id=platform-frontend", "client_id=other"),
        action.replace("tab_id=", "tab_id=x"),
        action.replace("execution=", "execution=x"),
    ];
    for action in altered {
        let reply = provider.submit_to(&action, &cookie, "alice", "alice").await;
        assert_eq!(reply.status, 400, "{action}");
    }
    assert_eq!(provider.audited("login.succeeded").await, 0);
}

#[tokio::test]
async fn a_form_left_open_for_half_an_hour_is_shown_anew() {
    let provider = Provider::start().await;
    let page = provider.open(&[]).await;
    provider.clock.advance(std::time::Duration::from_mins(30));
    let again = provider.submit(&page, "alice", "alice").await;
    assert!(again.text.contains("You took too long"), "{}", again.text);
    assert_eq!(provider.submit(&again, "alice", "alice").await.status, 302);
}

#[tokio::test]
async fn bodies_that_are_no_small_form_are_refused_on_both_form_routes() {
    let provider = Provider::start().await;
    let action = action_of(&provider.open(&[]).await);
    for path in [action, format!("{OIDC}/token")] {
        let json = provider.send("POST", &path, |call| call.json(json!({ "username": "alice" }))).await;
        assert_eq!(json.status, 415, "{path}");
        let large = "x".repeat(33 << 10);
        let large = provider.send("POST", &path, |call| with_form(call, &[("username", &large)])).await;
        assert_eq!(large.status, 413, "{path}");
        for bad in ["a=%00", "a=%ff", "%00"] {
            let reply = provider
                .send("POST", &path, |call| {
                    call.header("content-type", "application/x-www-form-urlencoded").body(bad)
                })
                .await;
            assert_eq!(reply.status, 400, "{path} {bad}");
        }
    }
}

#[tokio::test]
async fn the_pages_carry_the_headers_that_keep_them_safe() {
    let provider = Provider::start().await;
    let refused = provider.get(&format!("{OIDC}/auth")).await;
    assert_eq!(refused.status, 400);
    for reply in [provider.open(&[]).await, refused] {
        assert_eq!(reply.header("x-frame-options"), "DENY");
        assert_eq!(reply.header("referrer-policy"), "no-referrer");
        assert!(reply.header("cache-control").contains("no-store"));
        assert!(reply.header("content-security-policy").contains("frame-ancestors 'none'"));
        assert!(reply.header("content-type").starts_with("text/html"));
    }
}

#[tokio::test]
async fn the_form_is_in_the_language_that_the_client_asks_for() {
    let provider = Provider::start().await;
    for (locales, lang) in [("de", "de"), ("xx de en", "de"), ("en de", "en"), ("xx", "en")] {
        let page = provider.open(&[("ui_locales", locales)]).await;
        assert_eq!(page.status, 200, "{locales}");
        assert!(page.text.contains(&format!("<html lang=\"{lang}\">")), "{locales}: {}", page.text);
    }
}
