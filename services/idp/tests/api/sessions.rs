//! The session of a browser: when no form is needed, when one is, and what ends it.

use std::time::Duration;

use testkit::Reply;

use crate::provider::{
    CALLBACK, OIDC, Provider, action_of, answer_of, auth_query, claims_of, cookie_of, oauth_error, with_form,
};

/// A browser that has signed in: its cookies, and the tokens of the login.
struct SignedIn {
    cookies: String,
    /// Set by the login.
    set: Vec<String>,
    tokens: serde_json::Value,
}

async fn sign_in(provider: &Provider, cookies: &str, user: &str) -> SignedIn {
    let page = authorize(provider, cookies, &[("prompt", "login")]).await;
    let form = format!("{}; {cookies}", cookie_of(&page));
    let reply = provider.submit_to(&action_of(&page), &form, user, user).await;
    let answer = answer_of(&reply, &format!("{CALLBACK}?"));
    let tokens = provider.redeem(&answer["code"], &[]).await.body;
    let set = reply.headers.get_all("set-cookie").iter();
    let set = set.map(|value| value.to_str().expect("text").to_owned()).collect();
    SignedIn { cookies: cookie_of(&reply), set, tokens }
}

async fn authorize(provider: &Provider, cookies: &str, changes: &[(&str, &str)]) -> Reply {
    let path = format!("{OIDC}/auth?{}", auth_query(changes));
    provider.send("GET", &path, |call| call.header("cookie", cookies)).await
}

async fn logout(provider: &Provider, cookies: &str, pairs: &[(&str, &str)]) -> Reply {
    let query = serde_urlencoded::to_string(pairs).expect("pairs of texts");
    provider.send("GET", &format!("{OIDC}/logout?{query}"), |call| call.header("cookie", cookies)).await
}

/// Whether the browser needs no form.
async fn is_signed_in(provider: &Provider, cookies: &str) -> bool {
    let reply = authorize(provider, cookies, &[("prompt", "none")]).await;
    let answer = answer_of(&reply, &format!("{CALLBACK}?"));
    assert!(answer.contains_key("code") || answer["error"] == "login_required", "{answer:?}");
    answer.contains_key("code")
}

async fn is_live(provider: &Provider, tokens: &serde_json::Value) -> bool {
    let reply = provider.refresh(tokens).await;
    assert!(reply.status == 200 || oauth_error(&reply).1 == "invalid_grant", "{}", reply.text);
    reply.status == 200
}

/// Ends of a session delete what is below it in one statement.
#[tokio::test]
async fn a_browser_has_twenty_sessions_of_a_client_and_the_oldest_ends_first() {
    let provider = Provider::start().await;
    let alice = sign_in(&provider, "", "alice").await;
    let mut tokens = vec![alice.tokens.clone()];
    for _ in 0..21 {
        provider.clock.advance(Duration::from_secs(1));
        let reply = authorize(&provider, &alice.cookies, &[("prompt", "none")]).await;
        let answer = answer_of(&reply, &format!("{CALLBACK}?"));
        tokens.push(provider.redeem(&answer["code"], &[]).await.body);
    }
    let counted: i64 = sqlx::query_scalar("SELECT count(*) FROM idp.sessions")
        .fetch_one(&provider.database.owner_pool())
        .await
        .expect("a number");
    assert_eq!(counted, 20);
    let (first, last) = (tokens.first().expect("some"), tokens.last().expect("some"));
    assert!(!is_live(&provider, first).await && is_live(&provider, last).await);
    assert!(is_live(&provider, &tokens[2]).await, "the oldest of the twenty");
}

#[tokio::test]
async fn a_user_has_two_hundred_browser_sessions_and_the_oldest_end_first() {
    let provider = Provider::start().await;
    let sql =
        "INSERT INTO idp.browser_sessions(id, cookie_hash, user_id, authenticated_at, idle_until, ends_at)
               SELECT gen_random_uuid(), sha256(n::text::bytea), u.id, $1 - make_interval(secs => n), $2, $2
                 FROM generate_series(1, 230) n, idp.users u WHERE u.username = 'alice'";
    let now = provider.clock.now();
    let pool = provider.database.owner_pool();
    let added = sqlx::query(sql).bind(now).bind(now.saturating_add(time::Duration::hours(1)));
    added.execute(&pool).await.expect("the superuser may");
    let alice = sign_in(&provider, "", "alice").await;
    let sql =
        "SELECT count(*), min(authenticated_at) = $1 - interval '199 seconds' FROM idp.browser_sessions";
    let left: (i64, bool) = sqlx::query_as(sql).bind(now).fetch_one(&pool).await.expect("counted");
    assert_eq!(left, (200, true));
    assert!(is_signed_in(&provider, &alice.cookies).await, "control");
}

#[tokio::test]
async fn a_browser_that_has_signed_in_needs_no_form() {
    let provider = Provider::start().await;
    let alice = sign_in(&provider, "", "alice").await;
    let (name, rest) = alice.cookies.split_once('=').expect("a cookie");
    assert_eq!((name, rest.len()), ("PLATFORM_SESSION", 43));
    for path in ["/realms/platform/", "/auth/realms/platform/"] {
        let found = alice.set.iter().find(|set| set.contains(&format!("; Path={path}; ")));
        let set = found.unwrap_or_else(|| panic!("no cookie for {path}: {:?}", alice.set));
        assert!(set.ends_with("; HttpOnly; Secure; SameSite=Lax") && set.contains(rest), "{set}");
    }

    provider.clock.advance(Duration::from_mins(5));
    let reply = authorize(&provider, &alice.cookies, &[]).await;
    let answer = answer_of(&reply, &format!("{CALLBACK}?"));
    let tokens = provider.redeem(&answer["code"], &[]).await.body;
    let (first, second) = (claims_of(&alice.tokens["access_token"]), claims_of(&tokens["access_token"]));
    for same in ["sub", "auth_time"] {
        assert_eq!(first[same], second[same], "{same}");
    }
    assert_ne!(first["sid"], second["sid"], "each client session is separate");
    let rows = provider.audit().await;
    let actions: Vec<&str> = rows.iter().map(|(_, action, _)| action.as_str()).collect();
    assert_eq!(actions[actions.len() - 2..], ["login.resumed", "session.tokens_issued"]);

    let other = authorize(&provider, "PLATFORM_SESSION=x", &[]).await;
    assert_eq!((other.status, other.text.contains("kc-form-login")), (200, true), "another browser");
    assert!(!is_signed_in(&provider, &format!("PLATFORM_SESSION={}", "A".repeat(43))).await);
}

#[tokio::test]
async fn a_login_is_asked_for_by_prompt_and_by_its_age() {
    let provider = Provider::start().await;
    let alice = sign_in(&provider, "", "alice").await;
    provider.clock.advance(Duration::from_mins(1));
    for (changes, needs_form) in [
        (&[("prompt", "login")][..], true),
        (&[("prompt", "select_account")], true),
        (&[("max_age", "59")], true),
        (&[("max_age", "60")], false),
        (&[("max_age", "0")], true),
        (&[("prompt", "consent")], false),
    ] {
        let reply = authorize(&provider, &alice.cookies, changes).await;
        assert_eq!(reply.status, if needs_form { 200 } else { 302 }, "{changes:?}");
    }
    let reply = authorize(&provider, &alice.cookies, &[("max_age", "59"), ("prompt", "none")]).await;
    assert_eq!(answer_of(&reply, &format!("{CALLBACK}?"))["error"], "login_required");
    let reply = authorize(&provider, &alice.cookies, &[("prompt", "none login")]).await;
    assert_eq!(answer_of(&reply, &format!("{CALLBACK}?"))["error"], "invalid_request");
}

#[tokio::test]
async fn a_session_lasts_while_a_client_refreshes_and_ten_hours_at_most() {
    let provider = Provider::start().await;
    let idle = sign_in(&provider, "", "alice").await;
    let mut kept = sign_in(&provider, "", "alice").await;
    for _ in 0..20 {
        provider.clock.advance(Duration::from_secs(1_799));
        kept.tokens = provider.refresh(&kept.tokens).await.body;
    }
    assert!(!is_signed_in(&provider, &idle.cookies).await);
    assert!(is_signed_in(&provider, &kept.cookies).await);
    let reply = authorize(&provider, &kept.cookies, &[]).await;
    let late = provider.redeem(&answer_of(&reply, &format!("{CALLBACK}?"))["code"], &[]).await.body;
    assert_eq!(late["refresh_expires_in"], 36_000 - 20 * 1_799, "cut to the end of the session");

    let (app, _stop) = provider.twin(|settings| settings).await;
    idp::sweep_once(&app).await.expect("swept");
    let left = "SELECT count(*) FROM idp.browser_sessions";
    let count = async || sqlx::query_scalar::<_, i64>(left).fetch_one(&provider.database.owner_pool()).await;
    assert_eq!(count().await.expect("a count"), 1, "the idle one is gone");
    provider.clock.advance(Duration::from_secs(20));
    assert!(!is_signed_in(&provider, &kept.cookies).await);
    idp::sweep_once(&app).await.expect("swept");
    assert_eq!(count().await.expect("a count"), 0);
}

#[tokio::test]
async fn a_logout_ends_the_browsers_session_and_every_client_session_below_it() {
    let provider = Provider::start().await;
    let alice = sign_in(&provider, "", "alice").await;
    let reply = authorize(&provider, &alice.cookies, &[]).await;
    let tab = provider.redeem(&answer_of(&reply, &format!("{CALLBACK}?"))["code"], &[]).await.body;
    let elsewhere = sign_in(&provider, "", "alice").await;
    let hint = alice.tokens["id_token"].as_str().expect("an ID token");
    let reply = logout(&provider, &alice.cookies, &[("id_token_hint", hint)]).await;
    assert!(reply.text.contains("You are signed out"), "{}", reply.text);
    assert!(!is_signed_in(&provider, &alice.cookies).await);
    assert!(!is_live(&provider, &alice.tokens).await && !is_live(&provider, &tab).await);
    assert!(
        is_signed_in(&provider, &elsewhere.cookies).await,
        "another browser of the same user stays signed in"
    );

    let refresh_token = elsewhere.tokens["refresh_token"].as_str().expect("a token");
    let pairs = [("client_id", "platform-frontend"), ("refresh_token", refresh_token)];
    assert_eq!(provider.post_form(&format!("{OIDC}/logout"), &pairs).await.status, 204);
    assert!(!is_signed_in(&provider, &elsewhere.cookies).await);
}

#[tokio::test]
async fn a_logout_after_the_client_session_has_ended_still_ends_the_browsers() {
    let provider = Provider::start().await;
    let alice = sign_in(&provider, "", "alice").await;
    provider.clock.advance(Duration::from_mins(29));
    assert!(is_signed_in(&provider, &alice.cookies).await, "kept");
    provider.clock.advance(Duration::from_mins(2));
    let (app, _stop) = provider.twin(|settings| settings).await;
    idp::sweep_once(&app).await.expect("swept");
    assert!(!is_live(&provider, &alice.tokens).await, "the client session has ended");
    assert!(is_signed_in(&provider, &alice.cookies).await, "the browser's has not");
    let hint = alice.tokens["id_token"].as_str().expect("an ID token");
    let reply = logout(&provider, &alice.cookies, &[("id_token_hint", hint)]).await;
    assert!(reply.header("set-cookie").starts_with("PLATFORM_SESSION=; "), "{}", reply.header("set-cookie"));
    assert!(!is_signed_in(&provider, &alice.cookies).await);
}

#[tokio::test]
async fn a_logout_without_an_id_token_asks_first() {
    let provider = Provider::start().await;
    let alice = sign_in(&provider, "", "alice").await;
    let pairs =
        [("client_id", "platform-frontend"), ("post_logout_redirect_uri", CALLBACK), ("state", "a&b")];
    let page = logout(&provider, &alice.cookies, &pairs).await;
    assert!(page.status == 200 && page.text.contains("kc-logout-confirm"), "{}", page.text);
    assert!(is_signed_in(&provider, &alice.cookies).await);

    let field = |name: &str| {
        let rest =
            page.text.split(&format!("name=\"{name}\" type=\"hidden\" value=\"")).nth(1).expect("a field");
        rest.split('"').next().expect("a value").replace("&amp;", "&")
    };
    let confirm = async |code: &str, cookies: &str| {
        let form = [
            ("session_code", code.to_owned()),
            ("client_id", field("client_id")),
            ("post_logout_redirect_uri", field("post_logout_redirect_uri")),
            ("state", field("state")),
        ];
        let form = form.each_ref().map(|(name, value)| (*name, value.as_str()));
        let path = format!("{OIDC}/logout");
        provider.send("POST", &path, |call| with_form(call.header("cookie", cookies), &form)).await
    };
    let bob = sign_in(&provider, "", "bob").await;
    let (code, forged) = (field("session_code"), format!("{}x", field("session_code")));
    for (code, cookies) in [(forged.as_str(), &alice.cookies), (code.as_str(), &bob.cookies)] {
        assert!(confirm(code, cookies).await.text.contains("kc-logout-confirm"));
    }
    assert!(is_signed_in(&provider, &alice.cookies).await && is_signed_in(&provider, &bob.cookies).await);
    let reply = confirm(&code, &alice.cookies).await;
    assert_eq!((reply.status, reply.header("location")), (302, &*format!("{CALLBACK}?state=a%26b")));
    assert!(!is_signed_in(&provider, &alice.cookies).await && is_signed_in(&provider, &bob.cookies).await);
}

#[tokio::test]
async fn another_login_in_the_same_browser_replaces_its_session() {
    let provider = Provider::start().await;
    let first = sign_in(&provider, "", "alice").await;
    let again = sign_in(&provider, &first.cookies, "alice").await;
    assert_ne!(first.cookies, again.cookies);
    assert!(!is_signed_in(&provider, &first.cookies).await, "the old cookie is invalid");
    assert!(is_live(&provider, &first.tokens).await, "sessions of the same user continue");
    let bob = sign_in(&provider, &again.cookies, "bob").await;
    assert!(!is_live(&provider, &again.tokens).await, "sessions of another user have ended");
    assert!(is_signed_in(&provider, &bob.cookies).await && !is_signed_in(&provider, &again.cookies).await);
}

#[tokio::test]
async fn a_disabled_user_is_signed_in_nowhere() {
    let provider = Provider::start().await;
    let alice = sign_in(&provider, "", "alice").await;
    let disable = "UPDATE idp.users SET enabled = false WHERE username = 'alice'";
    sqlx::query(disable).execute(&provider.database.owner_pool()).await.expect("the users");
    assert!(!is_signed_in(&provider, &alice.cookies).await);
}

#[tokio::test]
async fn an_id_token_of_another_user_leaves_the_browsers_session() {
    let provider = Provider::start().await;
    let (alice, bob) = (sign_in(&provider, "", "alice").await, sign_in(&provider, "", "bob").await);
    let hint = alice.tokens["id_token"].as_str().expect("an ID token");
    let reply = logout(&provider, &bob.cookies, &[("id_token_hint", hint)]).await;
    assert_eq!((reply.status, reply.header("set-cookie")), (200, ""), "{}", reply.text);
    assert!(is_signed_in(&provider, &bob.cookies).await && is_live(&provider, &bob.tokens).await);
}

#[tokio::test]
async fn a_client_that_asks_for_one_user_gets_no_code_of_another() {
    let provider = Provider::start().await;
    let alice = sign_in(&provider, "", "alice").await;
    let bob = sign_in(&provider, "", "bob").await;
    let hint = |signed_in: &SignedIn| signed_in.tokens["id_token"].as_str().expect("an ID token").to_owned();
    let (alices, bobs) = (hint(&alice), hint(&bob));
    let answer = async |changes: &[(&str, &str)]| {
        answer_of(&authorize(&provider, &alice.cookies, changes).await, &format!("{CALLBACK}?"))
    };
    assert!(answer(&[("prompt", "none"), ("id_token_hint", &alices)]).await.contains_key("code"));
    assert_eq!(answer(&[("prompt", "none"), ("id_token_hint", &bobs)]).await["error"], "login_required");
    let access = alice.tokens["access_token"].as_str().expect("a token");
    for bad in ["x", access, &"x".repeat(8_193)] {
        let refused = answer(&[("prompt", "none"), ("id_token_hint", bad)]).await;
        assert_eq!(refused["error"], "invalid_request");
        assert_eq!(refused["error_description"], "Invalid parameter: id_token_hint");
    }
    for (user, gets) in [("alice", "error"), ("bob", "code")] {
        let page = authorize(&provider, &alice.cookies, &[("id_token_hint", &bobs)]).await;
        let form = format!("{}; {}", cookie_of(&page), alice.cookies);
        let reply = provider.submit_to(&action_of(&page), &form, user, user).await;
        let answer = answer_of(&reply, &format!("{CALLBACK}?"));
        assert!(answer.contains_key(gets), "{user}: {answer:?}");
        let goes_on = is_signed_in(&provider, &alice.cookies).await;
        assert_eq!(
            goes_on,
            gets == "error",
            "a refused login changes nothing, one of another user ends the session"
        );
    }
}
