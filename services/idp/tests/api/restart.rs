//! What a restart keeps and what it changes.

use crate::provider::{ADMIN_SECRET, CRM_SECRET, OIDC, Provider, claims_of};

#[tokio::test]
async fn a_restart_keeps_keys_users_sessions_codes_and_open_forms() {
    let provider = Provider::start().await;
    let certs = provider.get(&format!("{OIDC}/certs")).await.body;
    let tokens = provider.tokens("alice").await;
    let code = provider.login("bob", "bob").await["code"].clone();
    let form = provider.open(&[]).await;
    let rows = provider.audit().await;
    let provider = provider.restart(|settings| settings).await;
    assert_eq!(provider.audit().await, rows, "a start that changes nothing writes nothing");
    assert_eq!(provider.get(&format!("{OIDC}/certs")).await.body, certs);
    let refreshed = provider.refresh(&tokens).await;
    assert_eq!(refreshed.status, 200, "{}", refreshed.text);
    let subject = |tokens: &serde_json::Value| claims_of(&tokens["access_token"])["sub"].clone();
    assert_eq!(subject(&tokens), subject(&refreshed.body));
    assert_eq!(provider.redeem(&code, &[]).await.status, 200);
    assert_eq!(provider.submit(&form, "alice", "alice").await.status, 302);
    assert_eq!(subject(&provider.tokens("alice").await), subject(&tokens));
}

#[tokio::test]
async fn a_start_adds_users_and_changes_no_password_but_a_well_known_one() {
    let provider = Provider::start().await;
    let first = "alice:another,erin:erin.secret";
    let provider = provider.restart(|settings| settings.with("PLATFORM_DEV_USERS", first)).await;
    provider.login("alice", "another").await;
    provider.login("bob", "bob").await;
    let second = "alice:a third one,erin:erin";
    let provider = provider.restart(|settings| settings.with("PLATFORM_DEV_USERS", second)).await;
    provider.login("alice", "another").await;
    provider.login("erin", "erin.secret").await;
    for (name, password) in [("alice", "alice"), ("alice", "a third one"), ("erin", "erin")] {
        let page = provider.open(&[]).await;
        assert_eq!(provider.submit(&page, name, password).await.status, 200, "{name} {password}");
    }
}

#[tokio::test]
async fn a_changed_client_secret_replaces_the_old_one() {
    let provider = Provider::start().await;
    let provider = provider
        .restart(|settings| settings.with("PLATFORM_SERVICE_CLIENT_SECRET_CRM_BACKEND", "the next secret"))
        .await;
    provider.client_token("crm-backend", "the next secret").await;
    let form =
        [("grant_type", "client_credentials"), ("client_id", "crm-backend"), ("client_secret", CRM_SECRET)];
    assert_eq!(provider.token(&form).await.status, 401);
}

#[tokio::test]
async fn two_starts_at_once_agree_on_one_key() {
    let provider = Provider::start().await;
    let database = provider.database.clone();
    // An empty provider: both starts find nothing, and a lock serialises them.
    let tables = "idp.signing_keys, idp.secrets, idp.clients, idp.users, idp.browser_sessions, idp.sessions, idp.codes, \
         idp.totp, idp.recovery_codes, idp.passkeys, idp.used_challenges, idp.failed_logins, idp.letters, idp.links";
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("TRUNCATE {tables}")))
        .execute(&database.owner_pool())
        .await
        .expect("emptied");
    let settings = database.settings("idp").with("PLATFORM_IDP_ADMIN_CLIENT_SECRET", ADMIN_SECRET);
    let config = idp::Config::read(&settings).expect("good settings");
    let stop = tokio_util::sync::CancellationToken::new();
    let start = || idp::App::start(&config, contract::Clock::system(), &stop);
    let (left, right) = tokio::join!(start(), start());
    assert!(left.expect("started").is_some() && right.expect("started").is_some());
    let count: i64 = sqlx::query_scalar("SELECT count(*) FROM idp.signing_keys")
        .fetch_one(&database.owner_pool())
        .await
        .expect("counted");
    assert_eq!(count, 1);
    stop.cancel();
}

#[tokio::test]
async fn what_has_run_out_is_swept_and_nothing_else() {
    let provider = Provider::start().await;
    let _unredeemed = provider.login("alice", "alice").await;
    let live = provider.tokens("bob").await;
    let config = idp::Config::read(
        &provider.database.settings("idp").with("PLATFORM_IDP_ADMIN_CLIENT_SECRET", ADMIN_SECRET),
    );
    let stop = tokio_util::sync::CancellationToken::new();
    let app = idp::App::start(&config.expect("good settings"), provider.clock.clone(), &stop).await;
    let app = app.expect("started").expect("not stopped");
    assert_eq!(idp::sweep_once(&app).await.expect("swept"), 0);
    provider.clock.advance(std::time::Duration::from_mins(1));
    assert_eq!(idp::sweep_once(&app).await.expect("swept"), 1, "the session whose code was never redeemed");
    assert_eq!(provider.refresh(&live).await.status, 200);
    provider.clock.advance(std::time::Duration::from_mins(30));
    assert_eq!(idp::sweep_once(&app).await.expect("swept"), 1);
    assert_eq!(idp::sweep_once(&app).await.expect("swept"), 0);
    assert_eq!(provider.audited("sessions.swept").await, 2);
    stop.cancel();
}

#[tokio::test]
async fn a_public_domain_allows_no_well_known_password() {
    let provider = Provider::start().await;
    let alice = provider.tokens("alice").await;
    let public = |users: &'static str| {
        move |settings: contract::Settings| {
            let settings = settings.with("PLATFORM_DOMAIN", "platform.example.com");
            settings.with("PLATFORM_IDP_BUILTIN", "allow").with("PLATFORM_DEV_USERS", users)
        }
    };
    // alice and bob are default users, created with their names as passwords.
    let refused = provider.refused(public("root:a longer one")).await;
    assert!(refused.contains("PLATFORM_DEV_USERS: alice, bob"), "{refused}");
    let refused = provider.refused(public("alice:a longer one")).await;
    assert!(refused.contains("PLATFORM_DEV_USERS: bob still has"), "{refused}");

    let provider = provider.restart(public("alice:a longer one,bob:another one")).await;
    let (rows, old) = (provider.audited("user.password_changed").await, provider.refresh(&alice).await);
    assert_eq!((rows, old.status), (2, 400), "sessions of the old password have ended");
    let provider = provider.restart(|settings| settings.with("PLATFORM_DOMAIN", "localhost:8443")).await;
    let page = provider.open(&[]).await;
    assert_eq!(provider.submit(&page, "alice", "alice").await.status, 200, "the form again");
    assert!(provider.login("alice", "a longer one").await.contains_key("code"));

    // A password that does not follow from the name is not changed.
    let provider =
        provider.restart(|settings| settings.with("PLATFORM_DEV_USERS", "alice:a third one")).await;
    assert!(provider.login("alice", "a longer one").await.contains_key("code"));
}
