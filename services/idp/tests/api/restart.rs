//! What a restart keeps, and what it changes.

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
async fn a_start_adds_users_and_never_changes_a_password() {
    let provider = Provider::start().await;
    let users = "alice:another,erin:erin.secret";
    let provider = provider.restart(|settings| settings.with("PLATFORM_DEV_USERS", users)).await;
    provider.login("alice", "alice").await;
    provider.login("erin", "erin.secret").await;
    let page = provider.open(&[]).await;
    assert_eq!(provider.submit(&page, "alice", "another").await.status, 200);
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
    // An empty provider: both starts find nothing and take turns.
    let tables = "idp.signing_keys, idp.secrets, idp.clients, idp.users, idp.sessions, idp.codes";
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
    assert_eq!(idp::sweep_once(&app).await.expect("swept"), 1, "the session nobody redeemed");
    assert_eq!(provider.refresh(&live).await.status, 200);
    provider.clock.advance(std::time::Duration::from_mins(30));
    assert_eq!(idp::sweep_once(&app).await.expect("swept"), 1);
    assert_eq!(idp::sweep_once(&app).await.expect("swept"), 0);
    assert_eq!(provider.audited("sessions.swept").await, 2);
    stop.cancel();
}
