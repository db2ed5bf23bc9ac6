//! E-mails for a forgotten password and an invitation, and that neither reveals who has an account.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use testkit::smtp::{Mail, SmtpReceiver, Step};
use testkit::{Call, Reply, until};

use crate::browser::{ACCOUNT, Browser, action, problem};
use crate::provider::{ADMIN_SECRET, BASE, OIDC, OPERATOR, Provider, auth_query, oauth_error, with_form};
use crate::second_factor::own;

const ASK: &str = "/realms/platform/login-actions/reset-credentials";
const LINK: &str = "https://localhost:8443/realms/platform/login-actions/action-token?key=";
const USERS: &str = "/admin/realms/platform/users";
const CHOSEN: &str = "Kerze Zaun Bügel Möwe";

/// A provider with a mail server.
async fn start() -> (Provider, SmtpReceiver) {
    let server = SmtpReceiver::start().await;
    let url = format!("smtp://{}?tls=none", server.address());
    let provider = Provider::start().await;
    let provider = provider
        .restart(|settings| {
            settings
                .with("PLATFORM_NOTIFICATION_SMTP_URL", url)
                .with("PLATFORM_NOTIFICATION_MAIL_FROM", "Platform <no-reply@example.test>")
        })
        .await;
    (provider, server)
}

async fn ask_from(provider: &Provider, address: &str, name: &str) -> Reply {
    let from = |call: Call| {
        call.header("x-forwarded-for", address.to_owned()).header("sec-fetch-site", "same-origin")
    };
    provider.send("POST", ASK, |call| with_form(from(call), &[("username", name)])).await
}

async fn ask(provider: &Provider, name: &str) -> Reply {
    ask_from(provider, "198.51.100.7", name).await
}

async fn waiting(provider: &Provider) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM idp.letters")
        .fetch_one(&provider.database.owner_pool())
        .await
        .expect("a count")
}

/// Returns every mail once the queue is empty.
async fn mails(provider: &Provider, server: &SmtpReceiver) -> Vec<Mail> {
    until("the queue is empty", || async { waiting(provider).await == 0 }).await;
    server.mails()
}

/// The text of a mail, including its header.
fn text_of(mail: &Mail) -> String {
    let data = String::from_utf8_lossy(&mail.data).into_owned();
    let (head, body) = data.split_once("\r\n\r\n").expect("a body");
    if head.to_lowercase().contains("base64") {
        let lines: String = body.split_whitespace().collect();
        let body = STANDARD.decode(lines).expect("Base64");
        return format!("{head}\r\n\r\n{}", String::from_utf8_lossy(&body));
    }
    if head.to_lowercase().contains("quoted-printable") {
        return format!("{head}\r\n\r\n{}", body.replace("=\r\n", "").replace("=3D", "="));
    }
    data
}

fn link_of(mail: &Mail) -> String {
    let text = text_of(mail);
    let link = text.split_whitespace().find(|word| word.starts_with(LINK));
    let link = link.unwrap_or_else(|| panic!("no link: {text}"));
    link.strip_prefix(BASE).expect("the public address").to_owned()
}

async fn choose(browser: &mut Browser<'_>, page: &Reply, password: &str, again: &str) -> Reply {
    let key = crate::browser::field(page, "key");
    let form = [("key", key.as_str()), ("password-new", password), ("password-confirm", again)];
    browser.post(&action(page, "kc-passwd-update-form"), &form).await
}

#[tokio::test]
async fn a_forgotten_password_is_replaced_by_a_link_that_is_good_once() {
    let (provider, server) = start().await;
    let tokens = provider.tokens("alice").await;
    let mut browser = own(&provider);
    let page = browser.open().await;
    assert!(
        page.text.contains(&format!("<a href=\"{BASE}{ASK}\">Forgot your password?</a>")),
        "{}",
        page.text
    );
    let page = browser.get(ASK).await;
    assert!(
        problem(&browser.post(&action(&page, "kc-reset-password-form"), &[]).await)
            .contains("Enter a user name")
    );
    let asked =
        browser.post(&action(&page, "kc-reset-password-form"), &[("username", " Alice@Example.test ")]).await;
    assert!(asked.text.contains("Check your e-mail"), "{}", asked.text);

    let mails = mails(&provider, &server).await;
    let [mail] = mails.as_slice() else { panic!("one mail: {mails:?}") };
    assert_eq!(mail.to, ["alice@example.test"]);
    let text = text_of(mail);
    assert!(text.contains("the account alice") && text.contains("Auto-Submitted: auto-generated"), "{text}");
    let link = link_of(mail);
    let key =
        link.split_once("?key=").and_then(|(_, rest)| rest.split('&').next()).expect("a key").to_owned();
    assert!(!provider.everything().await.contains(&key), "it is stored as a digest");

    for _ in 0..2 {
        assert_eq!(browser.get(&link).await.status, 200, "opening it does not use it up");
    }
    let page = browser.get(&link).await;
    assert_eq!(page.header("referrer-policy"), "no-referrer");
    for (password, again, why) in [
        (CHOSEN, "another", "are not the same"),
        ("short", "short", "at least 10"),
        ("alice12345", "alice12345", "easy"),
    ] {
        let refused = choose(&mut browser, &page, password, again).await;
        assert!(problem(&refused).contains(why), "{}", refused.text);
    }
    let saved = choose(&mut browser, &page, CHOSEN, CHOSEN).await;
    assert!(saved.text.contains("Your password is saved"), "{}", saved.text);
    assert_eq!(
        oauth_error(&provider.refresh(&tokens).await).2,
        "Session not active",
        "every session has ended"
    );
    let again = choose(&mut browser, &page, CHOSEN, CHOSEN).await;
    assert_eq!((again.status, again.text.contains("used before")), (400, true), "{}", again.text);
    assert!(again.text.contains(&format!("href=\"{BASE}{ASK}?ui_locales=en\"")), "{}", again.text);
    assert_eq!(browser.get(&link).await.status, 400);
    assert!(problem(&browser.sign_in("alice", "alice").await).contains("Invalid"));
    assert_eq!(browser.sign_in("alice", CHOSEN).await.status, 302);
    assert_eq!(
        (provider.audited("password_link.created").await, provider.audited("user.password_changed").await),
        (1, 1)
    );
}

#[tokio::test]
async fn the_language_that_the_client_asks_for_lasts_until_the_password_is_saved() {
    let (provider, server) = start().await;
    let mut browser = own(&provider).with("accept-language", "en");
    let page = browser.get(&format!("{OIDC}/auth?{}", auth_query(&[("ui_locales", "de")]))).await;
    let form = format!("{ASK}?ui_locales=de");
    assert!(page.text.contains(&format!("<a href=\"{BASE}{form}\">")), "{}", page.text);
    let page = browser.get(&form).await;
    let asked = browser.post(&action(&page, "kc-reset-password-form"), &[("username", "alice")]).await;
    assert!(asked.text.contains("lang=\"de\""), "{}", asked.text);
    let mails = mails(&provider, &server).await;
    let mail = mails.last().expect("a mail");
    assert!(text_of(mail).contains("Konto alice"), "{}", text_of(mail));
    let page = browser.get(&link_of(mail)).await;
    assert!(page.text.contains("lang=\"de\""), "{}", page.text);
    let refused = choose(&mut browser, &page, CHOSEN, "another").await;
    assert!(refused.text.contains("lang=\"de\""), "{}", refused.text);
    let saved = choose(&mut browser, &page, CHOSEN, CHOSEN).await;
    assert!(saved.text.contains("lang=\"de\""), "{}", saved.text);
    let account = format!("{ACCOUNT}?ui_locales=de");
    assert!(saved.text.contains(&format!("href=\"{BASE}{account}\"")), "{}", saved.text);
    let page = browser.get(&account).await;
    assert!(page.text.contains("lang=\"de\"") && page.text.contains("kc-form-login"), "{}", page.text);
}

#[tokio::test]
async fn a_page_of_another_site_asks_for_no_letter() {
    let (provider, server) = start().await;
    let ask = async |name: &'static str, value: &'static str| {
        provider.send("POST", ASK, |call| with_form(call.header(name, value), &[("username", "alice")])).await
    };
    for (name, value) in
        [("sec-fetch-site", "cross-site"), ("origin", "https://evil.test"), ("x-nothing", "at all")]
    {
        assert_eq!(ask(name, value).await.status, 400, "{name}: {value}");
    }
    assert_eq!(waiting(&provider).await, 0);
    assert_eq!(ask("origin", BASE).await.status, 200, "control");
    assert_eq!(mails(&provider, &server).await.len(), 1);
}

#[tokio::test]
async fn nobody_learns_who_has_an_account() {
    let (provider, server) = start().await;
    disable(&provider, "bob").await;
    let mut answers = Vec::new();
    for name in ["alice", "bob", "nobody", "nobody@example.test", "service-account-crm-backend"] {
        let reply = ask(&provider, name).await;
        answers.push((reply.status, reply.text.clone(), reply.headers.len()));
    }
    assert!(answers.iter().all(|answer| Some(answer) == answers.first()), "{answers:?}");
    assert_eq!(mails(&provider, &server).await.len(), 1, "only alice gets mail");
    let longest = "a".repeat(255);
    assert!(ask(&provider, &longest).await.text.contains("Check your e-mail"));
    assert!(ask(&provider, &format!("{longest}a")).await.text.contains("Enter a user name"));
    let everything = provider.everything().await;
    assert!(!everything.contains("nobody"), "the typed text is not kept");
}

async fn disable(provider: &Provider, name: &str) {
    let id = id_of(provider, name).await;
    let disabled =
        operate(provider, "PUT", &format!("/{id}?operator=root"), json!({ "enabled": false })).await;
    assert_eq!(disabled.status, 204);
}

#[tokio::test]
async fn an_address_and_an_account_have_so_many_letters_and_no_more() {
    let (provider, server) = start().await;
    for _ in 0..10 {
        assert!(ask(&provider, "nobody").await.text.contains("Check your e-mail"));
    }
    assert!(ask(&provider, "alice").await.text.contains("Check your e-mail"), "answered alike");
    assert_eq!(mails(&provider, &server).await.len(), 0, "the eleventh request of an hour sends nothing");
    for number in 0..5 {
        ask_from(&provider, &format!("203.0.113.{number}"), "alice").await;
    }
    assert_eq!(mails(&provider, &server).await.len(), 3, "of five addresses");
    provider.clock.advance(Duration::from_mins(30));
    ask_from(&provider, "203.0.113.9", "alice").await;
    assert_eq!(mails(&provider, &server).await.len(), 4, "once the links have expired");
    provider.clock.advance(Duration::from_mins(30));
    ask(&provider, "bob").await;
    assert_eq!(mails(&provider, &server).await.len(), 5, "an hour later the address may ask again");
}

#[tokio::test]
async fn a_link_runs_out_and_ends_with_any_change_of_the_password() {
    let (provider, server) = start().await;
    ask(&provider, "alice").await;
    let late = link_of(mails(&provider, &server).await.last().expect("a mail"));
    provider.clock.advance(Duration::from_secs(30 * 60 - 1));
    let mut browser = own(&provider);
    let page = browser.get(&late).await;
    assert_eq!(page.status, 200);
    provider.clock.advance(Duration::from_secs(1));
    assert_eq!(browser.get(&late).await.status, 400);
    assert_eq!(
        choose(&mut browser, &page, CHOSEN, CHOSEN).await.status,
        400,
        "a form that was open for too long"
    );
    let (app, _stop) = provider.twin(|settings| settings).await;
    idp::sweep_once(&app).await.expect("swept");
    let left: i64 = sqlx::query_scalar("SELECT count(*) FROM idp.links")
        .fetch_one(&provider.database.owner_pool())
        .await
        .expect("a count");
    assert_eq!(left, 0, "expired links are removed");

    ask(&provider, "alice").await;
    let link = link_of(mails(&provider, &server).await.last().expect("a mail"));
    let id = id_of(&provider, "alice").await;
    let reset = json!({ "type": "password", "value": "given-by-an-operator", "temporary": true });
    assert_eq!(operate(&provider, "PUT", &format!("/{id}/reset-password"), reset).await.status, 204);
    assert_eq!(browser.get(&link).await.status, 400);

    ask(&provider, "bob").await;
    let link = link_of(mails(&provider, &server).await.last().expect("a mail"));
    disable(&provider, "bob").await;
    assert_eq!(browser.get(&link).await.status, 400, "a disabled account");
}

#[tokio::test]
async fn a_letter_that_the_server_does_not_take_now_is_tried_again_and_one_that_it_refuses_is_not() {
    let (provider, server) = start().await;
    server.answer(Step::Recipient, 450, "later");
    ask(&provider, "alice").await;
    until("the first attempt", || async { server.commands().iter().any(|line| line.starts_with("RCPT")) })
        .await;
    until("it waits", || async { attempts(&provider).await == Some(1) }).await;
    server.behave(Step::Recipient);
    provider.clock.advance(Duration::from_mins(1));
    ask(&provider, "nobody").await;
    let sent = mails(&provider, &server).await;
    assert_eq!(sent.len(), 1);
    let mut browser = own(&provider);
    assert_eq!(
        browser.get(&link_of(sent.last().expect("a mail"))).await.status,
        200,
        "only the last link is valid"
    );
    server.answer(Step::Recipient, 550, "no such mailbox <bob@example.test>");
    ask(&provider, "bob").await;
    assert_eq!(mails(&provider, &server).await.len(), 1, "given up");
}

async fn attempts(provider: &Provider) -> Option<i32> {
    let postponed = "SELECT attempts FROM idp.letters WHERE due_at <= to_timestamp($1::bigint + 60)";
    let now = sqlx::query_scalar(postponed).bind(provider.clock.unix_seconds());
    now.fetch_optional(&provider.database.owner_pool()).await.expect("a row")
}

#[tokio::test]
async fn the_second_factor_is_still_asked_for() {
    let (provider, server) = start().await;
    crate::second_factor::set_up_for_alice(&provider).await;
    ask(&provider, "alice").await;
    let link = link_of(mails(&provider, &server).await.last().expect("a mail"));
    let mut browser = own(&provider);
    let page = browser.get(&link).await;
    assert!(choose(&mut browser, &page, CHOSEN, CHOSEN).await.text.contains("is saved"));
    let page = browser.sign_in("alice", CHOSEN).await;
    assert!(page.text.contains("kc-otp-login-form"), "{}", page.text);
}

async fn operate(provider: &Provider, method: &str, path: &str, body: Value) -> Reply {
    provider.send(method, &format!("{USERS}{path}"), |call| call.bearer(OPERATOR).json(body)).await
}

async fn id_of(provider: &Provider, name: &str) -> String {
    let path = format!("{USERS}?username={name}&exact=true");
    let found = provider.send("GET", &path, |call| call.bearer(OPERATOR)).await;
    found.body[0]["id"].as_str().unwrap_or_else(|| panic!("no user: {}", found.text)).to_owned()
}

#[tokio::test]
async fn who_is_invited_chooses_a_password_within_three_days() {
    let (provider, server) = start().await;
    let credential = json!({ "type": "password", "value": "told-to-nobody-at-all", "temporary": true });
    let user = json!({ "username": "grace", "email": "grace@example.test", "credentials": [credential] });
    assert_eq!(operate(&provider, "POST", "?operator=root", user).await.status, 201);
    let id = id_of(&provider, "grace").await;
    let path = format!("/{id}/execute-actions-email?operator=root&lang=de");
    assert_eq!(operate(&provider, "PUT", &path, json!(["UPDATE_PASSWORD"])).await.status, 204);
    let mails = mails(&provider, &server).await;
    let [mail] = mails.as_slice() else { panic!("one mail: {mails:?}") };
    assert!(text_of(mail).contains("Ihr Benutzername ist grace"), "{}", text_of(mail));
    let link = link_of(mail);
    provider.clock.advance(Duration::from_secs(3 * 24 * 60 * 60 - 1));
    let mut browser = own(&provider).with("accept-language", "de");
    let page = browser.get(&link).await;
    assert!(
        page.text.contains("lang=\"de\"") && page.text.contains("<strong>grace</strong>"),
        "{}",
        page.text
    );
    assert!(choose(&mut browser, &page, CHOSEN, CHOSEN).await.text.contains("Ihr Passwort ist gespeichert"));
    assert_eq!(browser.sign_in("grace", CHOSEN).await.status, 302);

    assert_eq!(operate(&provider, "PUT", &path, json!(["UPDATE_PASSWORD"])).await.status, 204);
    let link = link_of(self::mails(&provider, &server).await.last().expect("a mail"));
    provider.clock.advance(Duration::from_hours(72));
    assert_eq!(browser.get(&link).await.status, 400);
}

#[tokio::test]
async fn every_invitation_is_sent_and_the_three_latest_are_valid() {
    let (provider, server) = start().await;
    let path = format!("/{}/execute-actions-email?operator=root", id_of(&provider, "alice").await);
    for _ in 0..5 {
        assert_eq!(operate(&provider, "PUT", &path, json!(["UPDATE_PASSWORD"])).await.status, 204);
        mails(&provider, &server).await;
        provider.clock.advance(Duration::from_secs(1));
    }
    let mut statuses = Vec::new();
    for mail in mails(&provider, &server).await {
        statuses.push(own(&provider).get(&link_of(&mail)).await.status);
    }
    assert_eq!(statuses, [400, 400, 200, 200, 200]);
}

#[tokio::test]
async fn only_an_operator_invites_and_only_who_can_have_mail() {
    let (provider, _server) = start().await;
    let id = id_of(&provider, "alice").await;
    let administrator = provider.client_token("platform-admin", ADMIN_SECRET).await;
    let path = format!("{USERS}/{id}/execute-actions-email");
    let body = json!(["UPDATE_PASSWORD"]);
    let refused = provider.send("PUT", &path, |call| call.bearer(&administrator).json(body.clone())).await;
    assert_eq!(refused.status, 403);
    for (path, body, status) in [
        (format!("/{id}/execute-actions-email"), json!(["VERIFY_EMAIL"]), 400),
        (format!("/{id}/execute-actions-email?lang=fr"), body.clone(), 400),
        (format!("/{}/execute-actions-email", uuid::Uuid::new_v4()), body.clone(), 404),
    ] {
        assert_eq!(operate(&provider, "PUT", &path, body).await.status, status, "{path}");
    }
    let credential = json!({ "type": "password", "value": "told-to-nobody-at-all", "temporary": true });
    let user = json!({ "username": "grace", "credentials": [credential] });
    assert_eq!(operate(&provider, "POST", "", user).await.status, 201);
    let path = format!("/{}/execute-actions-email", id_of(&provider, "grace").await);
    let without = operate(&provider, "PUT", &path, body.clone()).await;
    assert_eq!((without.status, without.body["error"].as_str()), (400, Some("User email missing")));
    disable(&provider, "bob").await;
    let path = format!("/{}/execute-actions-email", id_of(&provider, "bob").await);
    assert_eq!(operate(&provider, "PUT", &path, body).await.status, 400);
}

#[tokio::test]
async fn without_a_mail_server_nobody_is_sent_anywhere() {
    let provider = Provider::start().await;
    let page = provider.open(&[]).await;
    assert!(!page.text.contains("reset-credentials"), "{}", page.text);
    assert_eq!(provider.get(ASK).await.status, 400);
    assert_eq!(ask(&provider, "alice").await.status, 400);
    let path = format!("/{}/execute-actions-email", id_of(&provider, "alice").await);
    let refused = operate(&provider, "PUT", &path, json!(["UPDATE_PASSWORD"])).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
}
