//! Credentials that change between their proof and the opening of the session: the password is reset, the account
//! disabled, a second factor set up. The change is held just before its commit until the login has come as far as it
//! can.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::json;
use testkit::Reply;

use crate::accounts::{CHOSEN, GIVEN, add, ask, credential, id_of};
use crate::browser::{ACCOUNT, Browser, action, field, problem};
use crate::provider::{NOW, Provider};
use crate::second_factor::{code, own, secret_of, set_up};

/// Runs `change` and, once it has done everything but commit, `late`; returns both responses. Every transaction writes
/// an audit row before it commits, so a lock on that table holds both.
async fn beside(
    provider: &Provider,
    change: BoxFuture<'_, Reply>,
    late: BoxFuture<'_, Reply>,
) -> (Reply, Reply) {
    let mut held = provider.database.owner_pool().begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE audit.idp__events IN SHARE MODE").execute(&mut *held).await.expect("locked");
    let first = async {
        let changed = change.await;
        assert!(changed.status < 400, "the change is done: {} {}", changed.status, changed.text);
        changed
    };
    let second = async {
        waiting(provider, 1).await;
        late.await
    };
    let release = async {
        waiting(provider, 2).await;
        held.commit().await.expect("released");
    };
    let (changed, late, ()) = tokio::join!(first, second, release);
    (changed, late)
}

/// Waits until this many of the provider's connections wait for a lock.
async fn waiting(provider: &Provider, count: i64) {
    let sql = "SELECT count(*) FROM pg_stat_activity \
               WHERE datname = current_database() AND usename = 'platform_idp' AND wait_event_type = 'Lock'";
    let pool = provider.database.owner_pool();
    let until = async {
        while sqlx::query_scalar::<_, i64>(sql).fetch_one(&pool).await.expect("counted") < count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), until).await.expect("both come to the lock");
}

async fn sessions(provider: &Provider) -> i64 {
    let sql = "SELECT (SELECT count(*) FROM idp.browser_sessions) + (SELECT count(*) FROM idp.sessions)";
    sqlx::query_scalar(sql).fetch_one(&provider.database.owner_pool()).await.expect("counted")
}

#[tokio::test]
async fn a_login_with_a_password_that_is_reset_meanwhile_opens_no_session() {
    let provider = Provider::start().await;
    let alice = id_of(&provider, "alice").await;
    assert_eq!(Browser::new(&provider).sign_in("alice", "alice").await.status, 302, "control");
    let mut thief = Browser::new(&provider);
    let reset = format!("/{alice}/reset-password");
    let reset = ask(&provider, "PUT", &reset, credential());
    let (_, late) = beside(&provider, Box::pin(reset), Box::pin(thief.sign_in("alice", "alice"))).await;
    assert_eq!(sessions(&provider).await, 0, "{} {}", late.status, late.text);
    assert!(problem(&late).contains("Invalid"), "as for a wrong password: {}", late.text);
    assert_eq!(provider.failures("credentials").await, 1);
    let mut owner = Browser::new(&provider);
    assert!(owner.sign_in("alice", GIVEN).await.text.contains("kc-passwd-update-form"));
}

#[tokio::test]
async fn a_login_of_a_user_who_is_disabled_meanwhile_opens_no_session() {
    let provider = Provider::start().await;
    let alice = format!("/{}", id_of(&provider, "alice").await);
    let mut browser = Browser::new(&provider);
    let disable = ask(&provider, "PUT", &alice, json!({ "enabled": false }));
    let (_, late) = beside(&provider, Box::pin(disable), Box::pin(browser.sign_in("alice", "alice"))).await;
    assert_eq!(sessions(&provider).await, 0, "{} {}", late.status, late.text);
    assert!(problem(&late).contains("Invalid"), "{}", late.text);
    assert_eq!(ask(&provider, "PUT", &alice, json!({ "enabled": true })).await.status, 204);
    assert_eq!(browser.sign_in("alice", "alice").await.status, 302, "control");
}

#[tokio::test]
async fn a_login_with_the_password_that_its_user_changes_meanwhile_opens_no_session() {
    let provider = Provider::start().await;
    let (mut owner, mut thief) = (own(&provider), Browser::new(&provider));
    let page = owner.enter("alice", "alice").await;
    let pairs = [("password", "alice"), ("password-new", CHOSEN), ("password-confirm", CHOSEN)];
    let change = owner.change(&page, "password", &pairs);
    let (_, late) = beside(&provider, Box::pin(change), Box::pin(thief.sign_in("alice", "alice"))).await;
    assert!(problem(&late).contains("Invalid"), "{}", late.text);
    assert_eq!(sessions(&provider).await, 1, "the one that changed it");
    assert_eq!(thief.sign_in("alice", CHOSEN).await.status, 302, "control");
}

#[tokio::test]
async fn a_second_step_under_way_at_a_reset_opens_no_session() {
    let provider = Provider::start().await;
    let scene = set_up(&provider).await;
    let reset = format!("/{}/reset-password", id_of(&provider, "alice").await);
    let mut thief = own(&provider);
    let form = action(&thief.sign_in("alice", "alice").await, "kc-otp-login-form");
    let next = code(&scene.secret, NOW + 30);
    let pairs = [("otp", next.as_str())];
    let reset = ask(&provider, "PUT", &reset, credential());
    let (_, late) = beside(&provider, Box::pin(reset), Box::pin(thief.post(&form, &pairs))).await;
    assert_eq!(sessions(&provider).await, 0, "{} {}", late.status, late.text);
    assert!(problem(&late).contains("Invalid"), "{}", late.text);
}

#[tokio::test]
async fn a_first_login_whose_chosen_password_is_reset_meanwhile_opens_no_session() {
    let provider = Provider::start().await;
    let grace = add(&provider, "grace").await;
    let mut browser = Browser::new(&provider);
    let form = action(&browser.sign_in("grace", GIVEN).await, "kc-passwd-update-form");
    let chosen = [("password-new", CHOSEN), ("password-confirm", CHOSEN)];
    let reset = format!("/{grace}/reset-password");
    let reset = ask(&provider, "PUT", &reset, credential());
    let choice = Box::pin(browser.post(&form, &chosen));
    let (chose, reset) = beside(&provider, choice, Box::pin(reset)).await;
    assert_eq!(reset.status, 204);
    assert_eq!(sessions(&provider).await, 0, "{} {}", chose.status, chose.text);
    let form = action(&browser.sign_in("grace", GIVEN).await, "kc-passwd-update-form");
    assert_eq!(browser.post(&form, &chosen).await.status, 302, "control");
}

#[tokio::test]
async fn a_login_without_a_code_opens_no_session_once_a_second_factor_is_set_up() {
    let provider = Provider::start().await;
    let (mut owner, mut thief) = (own(&provider), Browser::new(&provider));
    owner.enter("alice", "alice").await;
    let page = owner.get(&format!("{ACCOUNT}/totp")).await;
    let (right, sealed) = (code(&secret_of(&page), NOW), field(&page, "totpSecret"));
    let pairs = [("totpSecret", sealed.as_str()), ("totp", right.as_str())];
    let turn_on = owner.change(&page, "totp", &pairs);
    let (_, late) = beside(&provider, Box::pin(turn_on), Box::pin(thief.sign_in("alice", "alice"))).await;
    assert!(problem(&late).contains("Invalid"), "{}", late.text);
    assert_eq!(sessions(&provider).await, 1, "the one that set it up");
    assert!(thief.sign_in("alice", "alice").await.text.contains("kc-otp-login-form"), "control");
}

#[tokio::test]
async fn a_code_is_worth_nothing_once_its_second_factor_is_another_one() {
    let provider = Provider::start().await;
    let scene = set_up(&provider).await;
    let alice = id_of(&provider, "alice").await;
    let mut thief = own(&provider);
    let form = action(&thief.sign_in("alice", "alice").await, "kc-otp-login-form");
    let next = code(&scene.secret, NOW + 30);
    let pairs = [("otp", next.as_str())];
    let taken_away = format!("/{alice}/disable-credential-types");
    let taken_away = ask(&provider, "PUT", &taken_away, json!(["otp"]));
    let (_, late) = beside(&provider, Box::pin(taken_away), Box::pin(thief.post(&form, &pairs))).await;
    assert!(problem(&late).contains("Invalid"), "{}", late.text);
    assert_eq!(sessions(&provider).await, 0, "the removal ends them all");
}

/// The account's forms also prove something: their session and, if they ask for it, the password.
#[tokio::test]
async fn a_form_of_the_account_under_way_at_a_reset_changes_nothing() {
    let provider = Provider::start().await;
    let reset = format!("/{}/reset-password", id_of(&provider, "alice").await);
    let mut thief = own(&provider);
    thief.enter("alice", "alice").await;
    let page = thief.get(&format!("{ACCOUNT}/totp")).await;
    let (right, sealed) = (code(&secret_of(&page), NOW), field(&page, "totpSecret"));
    let pairs = [("totpSecret", sealed.as_str()), ("totp", right.as_str())];
    let turn_on = thief.change(&page, "totp", &pairs);
    let change = ask(&provider, "PUT", &reset, credential());
    let (_, late) = beside(&provider, Box::pin(change), Box::pin(turn_on)).await;
    assert_eq!(provider.audited("second_factor.added").await, 0, "{} {}", late.status, late.text);

    for form in ["totp/remove", "recovery-codes"] {
        let provider = Provider::start().await;
        let mut scene = set_up(&provider).await;
        let page = scene.browser.get(ACCOUNT).await;
        let reset = format!("/{}/reset-password", id_of(&provider, "alice").await);
        let change = ask(&provider, "PUT", &reset, credential());
        let late = scene.browser.change(&page, form, &[("password", "alice")]);
        let (_, late) = beside(&provider, Box::pin(change), Box::pin(late)).await;
        assert!(!late.text.contains("<ol class=\"codes\">"), "{}", late.text);
        for action in ["second_factor.removed", "second_factor.recovery_codes_renewed"] {
            assert_eq!(provider.audited(action).await, 0, "{form} {}", late.status);
        }
    }
}
