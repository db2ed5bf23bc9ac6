//! The second factor: set-up, single-use codes, recovery codes, guessing, and removal.

use std::time::Duration;

use data_encoding::BASE32_NOPAD;
use ring::hmac;
use serde_json::json;
use testkit::Reply;

use crate::browser::{ACCOUNT, Browser, action, field, problem};
use crate::provider::{BASE, NOW, OPERATOR, Provider};

/// The code of RFC 6238 at a time, computed independently of the provider.
pub(crate) fn code(secret: &[u8], seconds: i64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let tag = hmac::sign(&key, &(seconds / 30).to_be_bytes());
    let tag = tag.as_ref();
    let at = usize::from(tag[19] & 0xf);
    let number = u32::from_be_bytes([tag[at] & 0x7f, tag[at + 1], tag[at + 2], tag[at + 3]]);
    format!("{:06}", number % 1_000_000)
}

/// The code of a secret's text now.
pub(crate) fn code_of(key: &str) -> String {
    code(&BASE32_NOPAD.decode(key.as_bytes()).expect("Base32"), NOW)
}

pub(crate) struct Scene<'a> {
    pub(crate) browser: Browser<'a>,
    pub(crate) secret: Vec<u8>,
    recovery: Vec<String>,
}

pub(crate) fn own(provider: &Provider) -> Browser<'_> {
    Browser::new(provider).with("sec-fetch-site", "same-origin")
}

pub(crate) fn secret_of(page: &Reply) -> Vec<u8> {
    let key = page.text.split("id=\"kc-totp-secret-key\">").nth(1).and_then(|rest| rest.split('<').next());
    BASE32_NOPAD.decode(key.unwrap_or_else(|| panic!("no key: {}", page.text)).as_bytes()).expect("Base32")
}

fn codes_of(page: &Reply) -> Vec<String> {
    let list =
        page.text.split("<ol class=\"codes\">").nth(1).unwrap_or_else(|| panic!("no codes: {}", page.text));
    let rows = list.split("</ol>").next().expect("its end").split("<li>").skip(1);
    rows.filter_map(|row| row.split('<').next()).map(ToOwned::to_owned).collect()
}

/// Sets up a second factor for alice, for tests of the steps before it.
pub(crate) async fn set_up_for_alice(provider: &Provider) {
    drop(set_up(provider).await);
}

pub(crate) async fn set_up(provider: &Provider) -> Scene<'_> {
    let mut browser = own(provider);
    browser.enter("alice", "alice").await;
    let page = browser.get(&format!("{ACCOUNT}/totp")).await;
    assert!(page.text.contains("<svg class=\"qr\"") && !page.text.contains("style="), "{}", page.text);
    let (secret, sealed) = (secret_of(&page), field(&page, "totpSecret"));
    let wrong = browser.change(&page, "totp", &[("totpSecret", &sealed), ("totp", "000000")]).await;
    assert!(problem(&wrong).contains("Invalid code"));
    assert_eq!(secret_of(&wrong), secret, "the same secret is shown again");
    let right = code(&secret, NOW);
    let done = browser.change(&page, "totp", &[("totpSecret", &sealed), ("totp", &right)]).await;
    let recovery = codes_of(&done);
    assert_eq!(recovery.len(), 10, "{}", done.text);
    Scene { browser, secret, recovery }
}

/// Submits the password and, in the form that follows, the code or recovery code.
async fn second_step(browser: &mut Browser<'_>, name: &str, value: &str) -> Reply {
    let page = browser.sign_in("alice", "alice").await;
    browser.post(&action(&page, "kc-otp-login-form"), &[(name, value)]).await
}

#[tokio::test]
async fn a_login_needs_a_code_and_each_code_is_good_once() {
    let provider = Provider::start().await;
    let scene = set_up(&provider).await;
    let mut browser = own(&provider);
    let first = second_step(&mut browser, "otp", &code(&scene.secret, NOW)).await;
    assert!(problem(&first).contains("Invalid code"), "the code of the set-up is used up");
    let next = code(&scene.secret, NOW + 30);
    assert_eq!(second_step(&mut browser, "otp", &next).await.status, 302, "a clock may be a step ahead");
    assert!(problem(&second_step(&mut browser, "otp", &next).await).contains("Invalid code"));
    provider.clock.advance(Duration::from_mins(2));
    let old = code(&scene.secret, NOW + 60);
    assert!(problem(&second_step(&mut browser, "otp", &old).await).contains("Invalid code"), "two steps old");
    let spaced = code(&scene.secret, NOW + 90);
    let spaced = format!("{} {}", &spaced[..3], &spaced[3..]);
    assert_eq!(second_step(&mut browser, "otp", &spaced).await.status, 302, "a clock may be a step behind");
    assert_eq!(provider.audited("second_factor.used").await, 2);
    assert_eq!(provider.failures("second_factor").await, 3);
}

#[tokio::test]
async fn two_logins_at_once_do_not_share_a_code() {
    let provider = Provider::start().await;
    let scene = set_up(&provider).await;
    provider.clock.advance(Duration::from_secs(30));
    let code = code(&scene.secret, NOW + 30);
    let mut forms = Vec::new();
    for _ in 0..4 {
        let mut browser = own(&provider);
        let page = browser.sign_in("alice", "alice").await;
        forms.push((action(&page, "kc-otp-login-form"), browser));
    }
    let pairs = [("otp", code.as_str())];
    let tries = forms.iter_mut().map(|(form, browser)| browser.post(form, &pairs));
    let tries = futures_util::future::join_all(tries).await;
    let statuses: Vec<u16> = tries.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 302).count(), 1, "{statuses:?}");
}

#[tokio::test]
async fn a_recovery_code_stands_in_once() {
    let provider = Provider::start().await;
    let mut scene = set_up(&provider).await;
    let mut browser = own(&provider);
    let lower = scene.recovery[0].to_lowercase();
    assert_eq!(second_step(&mut browser, "recoveryCodeInput", &lower).await.status, 302);
    assert!(problem(&second_step(&mut browser, "recoveryCodeInput", &lower).await).contains("Invalid code"));
    let page = scene.browser.get(ACCOUNT).await;
    assert!(page.text.contains("Unused recovery codes: 9"), "{}", page.text);
    let stored: Vec<Vec<u8>> = sqlx::query_scalar("SELECT code_tag FROM idp.recovery_codes")
        .fetch_all(&provider.database.owner_pool())
        .await
        .expect("the table");
    assert!(stored.iter().all(|tag| tag.len() == 64), "only digests are kept");

    let wrong = scene.browser.change(&page, "recovery-codes", &[("password", "wrong")]).await;
    assert!(problem(&wrong).contains("password is wrong"));
    let renewed = codes_of(&scene.browser.change(&page, "recovery-codes", &[("password", "alice")]).await);
    assert_eq!(renewed.len(), 10);
    let old = second_step(&mut browser, "recoveryCodeInput", &scene.recovery[1]).await;
    assert!(problem(&old).contains("Invalid code"), "earlier ones are gone");
    assert_eq!(second_step(&mut browser, "recoveryCodeInput", &renewed[9]).await.status, 302);
}

#[tokio::test]
async fn codes_cannot_be_guessed_with_the_password_from_many_addresses() {
    let provider = Provider::start().await;
    let scene = set_up(&provider).await;
    for number in 0..5 {
        let mut thief = own(&provider).with("x-forwarded-for", &format!("198.51.100.{number}"));
        problem(&second_step(&mut thief, "otp", "000000").await);
    }
    let mut thief = own(&provider).with("x-forwarded-for", "198.51.100.99");
    let next = code(&scene.secret, NOW + 30);
    assert!(problem(&second_step(&mut thief, "otp", &next).await).contains("Invalid code"), "not checked");
    let mut known = scene.browser;
    assert_eq!(second_step(&mut known, "otp", &next).await.status, 302, "a known device is not delayed");
}

/// Who knew the password before there was a second factor may have signed in as often as they liked.
#[tokio::test]
async fn a_device_that_showed_the_password_alone_guesses_codes_as_a_stranger() {
    let provider = Provider::start().await;
    let mut devices = Vec::new();
    for _ in 0..4 {
        let mut device = own(&provider);
        assert_eq!(device.sign_in("alice", "alice").await.status, 302);
        devices.push(device);
    }
    let scene = set_up(&provider).await;
    for _ in 0..3 {
        for device in &mut devices {
            problem(&second_step(device, "otp", "000000").await);
        }
    }
    let counted = [
        provider.failures("second_factor").await,
        provider.failures("too_many_second_factor_failures").await,
    ];
    assert_eq!(counted, [5, 7]);
    let mut known = scene.browser;
    let next = code(&scene.secret, NOW + 30);
    assert_eq!(second_step(&mut known, "otp", &next).await.status, 302, "control: it has shown a code");
}

#[tokio::test]
async fn a_right_password_on_the_account_page_forgives_no_wrong_code() {
    let provider = Provider::start().await;
    let mut browser = set_up(&provider).await.browser;
    let page = browser.get(ACCOUNT).await;
    for _ in 0..4 {
        for _ in 0..3 {
            let form = browser.clone().sign_in("alice", "alice").await;
            problem(&browser.post(&action(&form, "kc-otp-login-form"), &[("otp", "000000")]).await);
        }
        let typed = [("password", "alice"), ("password-new", "one"), ("password-confirm", "another")];
        let refused = browser.change(&page, "password", &typed).await;
        assert!(problem(&refused).contains("not the same"), "the password was right: {}", refused.text);
    }
    assert_eq!(provider.failures("second_factor").await, 5);
}

#[tokio::test]
async fn the_first_second_factor_ends_the_sessions_that_the_password_alone_opened() {
    let provider = Provider::start().await;
    let mut thief = own(&provider);
    assert!(thief.enter("alice", "alice").await.text.contains("id=\"h-sessions\""), "control");
    let mut scene = set_up(&provider).await;
    assert!(thief.get(ACCOUNT).await.text.contains("id=\"kc-form-login\""));
    let page = scene.browser.get(ACCOUNT).await;
    assert!(page.text.contains("id=\"h-sessions\""), "its own session stays: {}", page.text);
}

#[tokio::test]
async fn the_second_step_is_worth_nothing_without_the_first() {
    let provider = Provider::start().await;
    let scene = set_up(&provider).await;
    let mut browser = own(&provider);
    let page = browser.sign_in("alice", "alice").await;
    let form = action(&page, "kc-otp-login-form");
    let mut other = own(&provider);
    other.open().await;
    assert_eq!(other.post(&form, &[("otp", "000000")]).await.status, 400, "another browser");
    let mut account = scene.browser;
    let shown = account.get(ACCOUNT).await;
    let new = "Kerze Zaun Bügel Möwe";
    let pairs = [("password", "alice"), ("password-new", new), ("password-confirm", new)];
    assert_eq!(account.change(&shown, "password", &pairs).await.status, 302);
    let late = browser.post(&form, &[("otp", &code(&scene.secret, NOW + 30))]).await;
    assert!(late.text.contains("kc-form-login"), "the password has changed: {}", late.text);
}

#[tokio::test]
async fn a_set_up_needs_a_recent_login() {
    let provider = Provider::start().await;
    let mut browser = own(&provider);
    browser.enter("alice", "alice").await;
    let page = browser.get(&format!("{ACCOUNT}/totp")).await;
    provider.clock.advance(Duration::from_secs(301));
    let form = browser.get(&format!("{ACCOUNT}/totp")).await;
    let sealed = field(&page, "totpSecret");
    let right = code(&secret_of(&page), NOW + 301);
    let late = browser.change(&page, "totp", &[("totpSecret", &sealed), ("totp", &right)]).await;
    assert!(late.text.contains("kc-form-login"), "{}", late.text);
    let pairs = [("username", "alice"), ("password", "alice")];
    let back = browser.post(&action(&form, "kc-form-login"), &pairs).await;
    assert_eq!(back.header("location"), format!("{BASE}{ACCOUNT}/totp"));
    let anew = browser.get(&format!("{ACCOUNT}/totp")).await;
    let foreign = browser.change(&anew, "totp", &[("totpSecret", &sealed), ("totp", &right)]).await;
    assert_eq!(foreign.status, 403, "a secret of another session");
}

#[tokio::test]
async fn it_is_removed_with_the_password_or_by_an_operator() {
    let provider = Provider::start().await;
    let mut scene = set_up(&provider).await;
    let page = scene.browser.get(ACCOUNT).await;
    let wrong = scene.browser.change(&page, "totp/remove", &[("password", "wrong")]).await;
    assert!(problem(&wrong).contains("password is wrong"));
    let removed = scene.browser.change(&page, "totp/remove", &[("password", "alice")]).await;
    assert_eq!(removed.header("location"), format!("{BASE}{ACCOUNT}?done=second-factor-removed"));
    assert_eq!(own(&provider).sign_in("alice", "alice").await.status, 302);

    let scene = set_up(&provider).await;
    assert_eq!(scene.recovery.len(), 10);
    let users = "/admin/realms/platform/users";
    let found = format!("{users}?username=alice&exact=true");
    let alice = provider.send("GET", &found, |call| call.bearer(OPERATOR)).await.body[0].clone();
    assert_eq!(alice["totp"], true);
    let path = format!("{users}/{}/disable-credential-types", alice["id"].as_str().expect("an id"));
    for types in [json!([]), json!(["password"]), json!({})] {
        let reply = provider.send("PUT", &path, |call| call.bearer(OPERATOR).json(types)).await;
        assert_eq!(reply.status, 400);
    }
    for _ in 0..2 {
        let reply = provider.send("PUT", &path, |call| call.bearer(OPERATOR).json(json!(["otp"]))).await;
        assert_eq!(reply.status, 204, "{}", reply.text);
    }
    assert_eq!(own(&provider).sign_in("alice", "alice").await.status, 302);
    assert_eq!(provider.audited("second_factor.removed").await, 2);
}
