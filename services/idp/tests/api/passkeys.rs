//! Passkeys: adding one, signing in with it alone or after the password, and everything that is no right answer.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::Reply;

use crate::authenticator::{Authenticator, options};
use crate::browser::{ACCOUNT, Browser, action, field, problem};
use crate::provider::{BASE, CALLBACK, OPERATOR, Provider};
use crate::second_factor::{code, own, set_up as set_up_codes};

const CHOSEN: &str = "Kerze Zaun Bügel Möwe";

/// Adds a passkey as the page says; the answer.
async fn add(browser: &mut Browser<'_>, authenticator: &mut Authenticator, name: &str) -> Reply {
    let page = browser.get(&format!("{ACCOUNT}/passkeys")).await;
    add_by(browser, &page, authenticator, name).await
}

async fn add_by(
    browser: &mut Browser<'_>,
    page: &Reply,
    authenticator: &mut Authenticator,
    name: &str,
) -> Reply {
    let (challenge, credential) = (field(page, "passkeyChallenge"), authenticator.create(&options(page)));
    let pairs = [("passkeyChallenge", &*challenge), ("passkeyName", name), ("credential", &*credential)];
    browser.change(page, "passkeys", &pairs).await
}

/// The user's account with a first passkey.
async fn with_passkey<'a>(provider: &'a Provider, user: &str) -> (Browser<'a>, Authenticator) {
    let (mut browser, mut authenticator) = (own(provider), Authenticator::new());
    browser.enter(user, user).await;
    let added = add(&mut browser, &mut authenticator, "My phone").await;
    assert!(added.text.contains("<ol class=\"codes\">"), "{} {}", added.status, added.text);
    (browser, authenticator)
}

async fn sign_in(browser: &mut Browser<'_>, authenticator: &mut Authenticator) -> Reply {
    let page = browser.open().await;
    let assertion = authenticator.get(&options(&page));
    browser.post(&action(&page, "webauth"), &[("assertion", &assertion)]).await
}

/// A change of what an authenticator says; its second argument is another user's subject.
type Change = fn(&mut Authenticator, &str);

/// The form of the second step, after the password.
async fn second_step(browser: &mut Browser<'_>, user: &str) -> Reply {
    let page = browser.sign_in(user, user).await;
    assert_eq!(page.status, 200, "the password alone is not enough");
    page
}

#[tokio::test]
async fn a_passkey_signs_in_without_name_and_password() {
    let provider = Provider::start().await;
    let (mut browser, mut authenticator) = with_passkey(&provider, "alice").await;
    let page = browser.get(ACCOUNT).await;
    assert!(
        page.text.contains("<strong>My phone</strong>") && !page.text.contains("last used"),
        "{}",
        page.text
    );
    let mut elsewhere = own(&provider);
    for _ in 0..2 {
        let answer = sign_in(&mut elsewhere, &mut authenticator).await;
        assert_eq!(answer.status, 302, "{}", answer.text);
        assert!(answer.header("location").starts_with(&format!("{CALLBACK}?")), "{:?}", answer.headers);
    }
    let page = browser.get(ACCOUNT).await;
    assert!(
        page.text.contains("last used") && page.text.contains("Unused recovery codes: 10"),
        "{}",
        page.text
    );
    assert_eq!((provider.audited("passkey.added").await, provider.audited("passkey.used").await), (1, 2));
    assert_eq!(provider.audited("login.succeeded").await, 3);
}

#[tokio::test]
async fn pages_with_a_ceremony_alone_may_run_the_script() {
    let provider = Provider::start().await;
    let mut browser = own(&provider);
    let login = browser.open().await;
    let policy = login.header("content-security-policy").to_owned();
    assert!(
        policy.contains("script-src 'self';") && policy.contains("require-trusted-types-for 'script'"),
        "{policy}"
    );
    assert_eq!(login.text.matches("<script").count(), 1);
    let account = browser.enter("alice", "alice").await;
    assert!(
        !account.text.contains("<script")
            && !account.header("content-security-policy").contains("script-src")
    );
    let page = browser.get(&format!("{ACCOUNT}/passkeys")).await;
    assert!(page.header("content-security-policy").contains("script-src 'self';"));
    assert_eq!(page.header("referrer-policy"), "same-origin");
    let script = provider.get("/resources/passkey.js").await;
    assert_eq!(script.header("content-type"), "text/javascript; charset=utf-8");
    assert!(!script.text.contains("innerHTML"));
}

#[tokio::test]
async fn an_answer_that_is_not_right_signs_nobody_in() {
    let provider = Provider::start().await;
    let (_, mut authenticator) = with_passkey(&provider, "alice").await;
    let bob = provider.login("bob", "bob").await;
    assert!(bob.contains_key("code"));
    let subject = subject(&provider, "bob").await;
    let changes: [(&str, Change); 5] = [
        ("another origin", |authenticator, _| authenticator.origin = "https://evil.test".to_owned()),
        ("another port", |authenticator, _| authenticator.origin = "https://localhost:9443".to_owned()),
        ("a user who was not verified", |authenticator, _| authenticator.flags = 0x01),
        ("nobody there", |authenticator, _| authenticator.flags = 0x04),
        ("another user's", |authenticator, bob| authenticator.claim(bob)),
    ];
    for (what, change) in changes {
        let (_, mut wrong) = with_passkey_beside(&provider, &mut authenticator).await;
        change(&mut wrong, &subject);
        let page = sign_in(&mut own(&provider), &mut wrong).await;
        assert!(problem(&page).contains("not accepted"), "{what}: {}", page.text);
    }
    let mut unknown = Authenticator::new();
    unknown.claim(&subject);
    assert!(problem(&sign_in(&mut own(&provider), &mut unknown).await).contains("not accepted"));
    for text in ["{}", "null", "[]", "x"] {
        let mut browser = own(&provider);
        let page = browser.open().await;
        let answer = browser.post(&action(&page, "webauth"), &[("assertion", text)]).await;
        assert!(problem(&answer).contains("not accepted"), "{text}");
    }
    assert_eq!(provider.failures("passkey").await, 10);
    assert_eq!(sign_in(&mut own(&provider), &mut authenticator).await.status, 302, "the control");
}

/// Another passkey of alice's.
async fn with_passkey_beside<'a>(
    provider: &'a Provider,
    first: &mut Authenticator,
) -> (Browser<'a>, Authenticator) {
    let (mut browser, mut authenticator) = (own(provider), Authenticator::new());
    assert_eq!(sign_in(&mut browser, first).await.status, 302);
    let added = add(&mut browser, &mut authenticator, "Another").await;
    assert_eq!(added.header("location"), format!("{BASE}{ACCOUNT}?done=passkey-added"), "{}", added.text);
    (browser, authenticator)
}

async fn subject(provider: &Provider, name: &str) -> String {
    let found = format!("/admin/realms/platform/users?username={name}&exact=true");
    let user = provider.send("GET", &found, |call| call.bearer(OPERATOR)).await.body[0].clone();
    user["id"].as_str().expect("a subject").to_owned()
}

#[tokio::test]
async fn an_answer_is_good_once_in_one_browser_and_for_half_an_hour() {
    let provider = Provider::start().await;
    let (_, mut authenticator) = with_passkey(&provider, "alice").await;
    let (mut browser, mut other) = (own(&provider), own(&provider));
    let page = browser.open().await;
    let (form, assertion) = (action(&page, "webauth"), authenticator.get(&options(&page)));
    let pairs = [("assertion", assertion.as_str())];
    other.open().await;
    assert_eq!(other.post(&form, &pairs).await.status, 400, "another browser");
    assert_eq!(browser.post(&form, &pairs).await.status, 302);
    assert!(problem(&browser.post(&form, &pairs).await).contains("not accepted"), "used before");

    let next = browser.open().await;
    let answer = browser.post(&action(&next, "webauth"), &pairs).await;
    assert!(problem(&answer).contains("not accepted"), "the answer to another challenge");
    let page = browser.open().await;
    let copied = authenticator.sign(&options(&page));
    let answer = browser.post(&action(&page, "webauth"), &[("assertion", &copied)]).await;
    assert!(problem(&answer).contains("not accepted"), "a copy whose counter stands still");

    let page = browser.open().await;
    let assertion = authenticator.get(&options(&page));
    provider.clock.advance(Duration::from_mins(30));
    let late = browser.post(&action(&page, "webauth"), &[("assertion", &assertion)]).await;
    assert!(problem(&late).contains("too long"), "{}", late.text);
    idp_swept(&provider).await;
    assert_eq!(sign_in(&mut browser, &mut authenticator).await.status, 302, "the control");
}

/// The sweep forgets used challenges only after their forms have run out.
async fn idp_swept(provider: &Provider) {
    let used = async || -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM idp.used_challenges")
            .fetch_one(&provider.database.owner_pool())
            .await
            .expect("the table")
    };
    // The one of the set-up, and the one of the login.
    assert_eq!(used().await, 2);
    provider.clock.advance(Duration::from_mins(1));
    let (app, _stop) = provider.twin(|settings| settings).await;
    idp::sweep_once(&app).await.expect("swept");
    assert_eq!(used().await, 0);
}

#[tokio::test]
async fn two_logins_at_once_do_not_share_an_answer() {
    let provider = Provider::start().await;
    let (_, mut authenticator) = with_passkey(&provider, "alice").await;
    let mut browser = own(&provider);
    let page = browser.open().await;
    let (form, assertion) = (action(&page, "webauth"), authenticator.get(&options(&page)));
    let pairs = [("assertion", assertion.as_str())];
    let mut browsers = [browser.clone(), browser.clone(), browser.clone(), browser];
    let tries =
        futures_util::future::join_all(browsers.iter_mut().map(|browser| browser.post(&form, &pairs))).await;
    let statuses: Vec<u16> = tries.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 302).count(), 1, "{statuses:?}");
}

#[tokio::test]
async fn the_first_passkey_ends_the_sessions_that_the_password_alone_opened_and_the_next_ends_none() {
    let provider = Provider::start().await;
    let mut thief = own(&provider);
    assert!(thief.enter("alice", "alice").await.text.contains("id=\"h-sessions\""), "control");
    let (mut browser, mut authenticator) = with_passkey(&provider, "alice").await;
    assert!(thief.get(ACCOUNT).await.text.contains("id=\"kc-form-login\""));
    let mut elsewhere = own(&provider);
    assert_eq!(sign_in(&mut elsewhere, &mut authenticator).await.status, 302);
    assert_eq!(add(&mut browser, &mut Authenticator::new(), "Key").await.status, 302);
    for browser in [&mut browser, &mut elsewhere] {
        assert!(browser.get(ACCOUNT).await.text.contains("id=\"h-sessions\""));
    }
}

#[tokio::test]
async fn with_a_passkey_the_password_needs_a_second_step() {
    let provider = Provider::start().await;
    let (_, mut authenticator) = with_passkey(&provider, "alice").await;
    let (_, mut bobs) = with_passkey(&provider, "bob").await;
    let mut browser = own(&provider);
    let page = second_step(&mut browser, "alice").await;
    assert!(!page.text.contains("kc-otp-login-form"), "no codes are set up: {}", page.text);
    let foreign = bobs.get(&options(&page));
    let again = browser.post(&action(&page, "webauth"), &[("assertion", &foreign)]).await;
    assert!(problem(&again).contains("not accepted"), "another user's passkey");
    let right = authenticator.get(&options(&again));
    assert_eq!(browser.post(&action(&again, "webauth"), &[("assertion", &right)]).await.status, 302);
    assert_eq!(provider.audited("passkey.used").await, 1);
}

#[tokio::test]
async fn codes_and_passkeys_stand_beside_each_other() {
    let provider = Provider::start().await;
    let mut scene = set_up_codes(&provider).await;
    let mut authenticator = Authenticator::new();
    let added = add(&mut scene.browser, &mut authenticator, "Key").await;
    assert_eq!(added.status, 302, "the recovery codes stay: {}", added.text);
    let mut browser = own(&provider);
    let page = second_step(&mut browser, "alice").await;
    provider.clock.advance(Duration::from_secs(30));
    let right = code(&scene.secret, crate::provider::NOW + 30);
    assert_eq!(browser.post(&action(&page, "kc-otp-login-form"), &[("otp", &right)]).await.status, 302);
    let page = second_step(&mut browser, "alice").await;
    let right = authenticator.get(&options(&page));
    assert_eq!(browser.post(&action(&page, "webauth"), &[("assertion", &right)]).await.status, 302);

    let account = scene.browser.get(ACCOUNT).await;
    let off = scene.browser.change(&account, "totp/remove", &[("password", "alice")]).await;
    assert_eq!(off.status, 302);
    let account = scene.browser.get(ACCOUNT).await;
    assert!(
        account.text.contains("Unused recovery codes: 10"),
        "they stand in for the passkey: {}",
        account.text
    );
    let passkey = field(&account, "passkey");
    let wrong =
        scene.browser.change(&account, "passkeys/remove", &[("passkey", &passkey), ("password", "no")]).await;
    assert!(problem(&wrong).contains("password is wrong"));
    let pairs = [("passkey", passkey.as_str()), ("password", "alice")];
    let mut elsewhere = own(&provider);
    assert_eq!(sign_in(&mut elsewhere, &mut authenticator).await.status, 302);
    let removed = scene.browser.change(&account, "passkeys/remove", &pairs).await;
    assert!(elsewhere.get(ACCOUNT).await.text.contains("kc-form-login"), "whom it signed in is signed out");
    assert_eq!(removed.header("location"), format!("{BASE}{ACCOUNT}?done=passkey-removed"));
    let account = scene.browser.get(ACCOUNT).await;
    assert!(!account.text.contains("Unused recovery codes"), "{}", account.text);
    assert_eq!(own(&provider).sign_in("alice", "alice").await.status, 302, "the password is enough again");
    assert!(problem(&sign_in(&mut own(&provider), &mut authenticator).await).contains("not accepted"));
}

#[tokio::test]
async fn a_recovery_code_stands_in_for_a_passkey() {
    let provider = Provider::start().await;
    let (mut browser, mut authenticator) = (own(&provider), Authenticator::new());
    browser.enter("alice", "alice").await;
    let added = add(&mut browser, &mut authenticator, "Key").await;
    let spare =
        added.text.split("<li>").nth(1).and_then(|row| row.split('<').next()).expect("a code").to_owned();
    let mut elsewhere = own(&provider);
    for status in [302, 200] {
        let page = second_step(&mut elsewhere, "alice").await;
        let form = action(&page, "kc-recovery-code-login-form");
        let answer = elsewhere.post(&form, &[("recoveryCodeInput", &spare)]).await;
        assert_eq!(answer.status, status, "each is good once");
    }
}

#[tokio::test]
async fn a_login_under_way_is_worth_nothing_after_a_change() {
    let provider = Provider::start().await;
    let mut late = own(&provider);
    let page = late.open().await;
    let (mut browser, mut authenticator) = with_passkey(&provider, "alice").await;
    let form = action(&page, "kc-form-login");
    let step = late.post(&form, &[("username", "alice"), ("password", "alice")]).await;
    assert_eq!(step.status, 200, "the passkey that came meanwhile is asked for");

    let account = browser.get(ACCOUNT).await;
    let pairs = [("passkey", &*field(&account, "passkey")), ("password", "alice")];
    let answer = authenticator.get(&options(&step));
    assert_eq!(browser.change(&account, "passkeys/remove", &pairs).await.status, 302);
    let gone = late.post(&action(&step, "webauth"), &[("assertion", &answer)]).await;
    assert!(problem(&gone).contains("not accepted"), "{}", gone.text);
}

#[tokio::test]
async fn a_disabled_account_has_no_use_of_its_passkey() {
    let provider = Provider::start().await;
    let (_, mut authenticator) = with_passkey(&provider, "alice").await;
    let path = format!("/admin/realms/platform/users/{}", subject(&provider, "alice").await);
    for (enabled, status) in [(false, 200), (true, 302)] {
        let body = json!({ "enabled": enabled });
        let reply = provider.send("PUT", &path, |call| call.bearer(OPERATOR).json(body)).await;
        assert_eq!(reply.status, 204, "{}", reply.text);
        let page = sign_in(&mut own(&provider), &mut authenticator).await;
        assert_eq!(page.status, status, "{}", page.text);
        assert_eq!(page.text.contains("This account is disabled"), !enabled);
    }
}

#[tokio::test]
async fn adding_one_needs_a_recent_login_its_own_form_and_a_right_answer() {
    let provider = Provider::start().await;
    let (mut browser, mut authenticator) = (own(&provider), Authenticator::new());
    browser.enter("alice", "alice").await;
    let address = format!("{ACCOUNT}/passkeys");
    let page = browser.get(&address).await;
    let asked = options(&page);
    assert_eq!(asked["authenticatorSelection"]["residentKey"], "required");
    assert_eq!((&asked["rp"]["id"], &asked["user"]["name"]), (&json!("localhost"), &json!("alice")));
    for name in ["", "  ", "a\tb", &"x".repeat(65)] {
        let again = add_by(&mut browser, &page, &mut authenticator, name).await;
        assert!(problem(&again).contains("1 to 64 characters"), "{name}");
    }
    authenticator.origin = "https://evil.test".to_owned();
    let again = add_by(&mut browser, &page, &mut authenticator, "Key").await;
    assert!(
        problem(&again).contains("was not added") && again.text.contains("value=\"Key\""),
        "{}",
        again.text
    );
    authenticator.origin = BASE.to_owned();
    let too_long = add_by(&mut browser, &page, &mut Authenticator::with_id_of(1_024), "Key").await;
    assert!(problem(&too_long).contains("was not added"), "a credential id of 1,024 bytes");
    let long = "ä".repeat(64);
    assert_eq!(add_by(&mut browser, &again, &mut authenticator, &long).await.status, 200, "the codes");
    let twice = add_by(&mut browser, &again, &mut authenticator, &long).await;
    assert!(problem(&twice).contains("was not added"), "a challenge is good once");
    let known = add(&mut browser, &mut authenticator, "Again").await;
    assert!(problem(&known).contains("was not added"), "the authenticator's passkey is known");

    let mut other = own(&provider);
    let theirs = other.enter("bob", "bob").await;
    let foreign = field(&page, "passkeyChallenge");
    let pairs = [("passkeyChallenge", foreign.as_str()), ("passkeyName", "Key")];
    assert_eq!(other.change(&theirs, "passkeys", &pairs).await.status, 403, "a form of another session");
    provider.clock.advance(Duration::from_secs(301));
    assert!(browser.get(&address).await.text.contains("kc-form-login"), "the login is too old");
    let late = add_by(&mut browser, &page, &mut Authenticator::new(), "Key").await;
    assert!(late.text.contains("kc-form-login"), "{}", late.text);
}

#[tokio::test]
async fn a_user_has_ten_at_most() {
    let provider = Provider::start().await;
    let (mut browser, _) = with_passkey(&provider, "alice").await;
    let before = browser.get(&format!("{ACCOUNT}/passkeys")).await;
    for number in 2..=10 {
        let added = add(&mut browser, &mut Authenticator::new(), &format!("Key {number}")).await;
        assert_eq!(added.status, 302, "{number}: {}", added.text);
    }
    let full = browser.get(&format!("{ACCOUNT}/passkeys")).await;
    assert!(problem(&full).contains("ten passkeys"));
    let late = add_by(&mut browser, &before, &mut Authenticator::new(), "Key 11").await;
    assert!(problem(&late).contains("ten passkeys"), "by a form from before");
    assert_eq!(provider.audited("passkey.added").await, 10);
}

#[tokio::test]
async fn operators_take_them_away_and_the_account_takes_them_along() {
    let provider = Provider::start().await;
    let (_, mut authenticator) = with_passkey(&provider, "alice").await;
    let mut thief = own(&provider);
    assert_eq!(sign_in(&mut thief, &mut authenticator).await.status, 302);
    let users = "/admin/realms/platform/users";
    let alice = subject(&provider, "alice").await;
    let shown = provider.send("GET", &format!("{users}/{alice}"), |call| call.bearer(OPERATOR)).await.body;
    assert_eq!((&shown["totp"], &shown["disableableCredentialTypes"]), (&json!(false), &json!(["webauthn"])));
    let path = format!("{users}/{alice}/disable-credential-types");
    for types in [json!(["otp"]), json!(["otp", "webauthn"]), json!(["webauthn"])] {
        let reply = provider.send("PUT", &path, |call| call.bearer(OPERATOR).json(types)).await;
        assert_eq!(reply.status, 204, "{}", reply.text);
    }
    assert_eq!(provider.audited("second_factor.removed").await, 1);
    assert!(thief.get(ACCOUNT).await.text.contains("kc-form-login"), "the sessions have ended");
    assert!(problem(&sign_in(&mut own(&provider), &mut authenticator).await).contains("not accepted"));
    assert_eq!(own(&provider).sign_in("alice", "alice").await.status, 302);

    drop(with_passkey(&provider, "bob").await);
    let path = format!("{users}/{}", subject(&provider, "bob").await);
    assert_eq!(provider.send("DELETE", &path, |call| call.bearer(OPERATOR)).await.status, 204);
    let left: Value = sqlx::query_scalar(
        "SELECT jsonb_build_array((SELECT count(*) FROM idp.passkeys), (SELECT count(*) FROM idp.recovery_codes))",
    )
    .fetch_one(&provider.database.owner_pool())
    .await
    .expect("the tables");
    assert_eq!(left, json!([0, 0]));
}

/// An operator gives alice another password.
async fn reset(provider: &Provider, password: &str) {
    let path = format!("/admin/realms/platform/users/{}/reset-password", subject(provider, "alice").await);
    let body = json!({ "type": "password", "value": password, "temporary": true });
    let reply = provider.send("PUT", &path, |call| call.bearer(OPERATOR).json(body)).await;
    assert_eq!(reply.status, 204, "{}", reply.text);
}

#[tokio::test]
async fn after_a_reset_the_new_password_comes_before_a_passkey() {
    let provider = Provider::start().await;
    let (_, mut authenticator) = with_passkey(&provider, "alice").await;
    reset(&provider, "Sturm-Kiesel-42").await;
    let mut browser = own(&provider);
    let page = sign_in(&mut browser, &mut authenticator).await;
    assert!(problem(&page).contains("gave you a new password"), "{}", page.text);
    let page = browser.sign_in("alice", "Sturm-Kiesel-42").await;
    let right = authenticator.get(&options(&page));
    let page = browser.post(&action(&page, "webauth"), &[("assertion", &right)]).await;
    let chosen = [("password-new", CHOSEN), ("password-confirm", CHOSEN)];
    assert_eq!(browser.post(&action(&page, "kc-passwd-update-form"), &chosen).await.status, 302);
    assert_eq!(sign_in(&mut own(&provider), &mut authenticator).await.status, 302);
}

#[tokio::test]
async fn a_passkey_that_is_removed_meanwhile_chooses_no_password() {
    let provider = Provider::start().await;
    let (_, mut authenticator) = with_passkey(&provider, "alice").await;
    reset(&provider, "Sturm-Kiesel-42").await;
    let mut browser = own(&provider);
    let page = browser.sign_in("alice", "Sturm-Kiesel-42").await;
    let right = authenticator.get(&options(&page));
    let page = browser.post(&action(&page, "webauth"), &[("assertion", &right)]).await;
    let form = action(&page, "kc-passwd-update-form");
    sqlx::query("DELETE FROM idp.passkeys").execute(&provider.database.owner_pool()).await.expect("removed");
    let late = browser.post(&form, &[("password-new", CHOSEN), ("password-confirm", CHOSEN)]).await;
    assert!(problem(&late).contains("too long") && late.text.contains("kc-form-login"), "{}", late.text);
    assert_eq!(provider.audited("user.password_changed").await, 1, "by the operator alone");
    let page = browser.sign_in("alice", "Sturm-Kiesel-42").await;
    assert!(page.text.contains("kc-passwd-update-form"), "{}", page.text);
}
