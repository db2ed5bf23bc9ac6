//! Default grants of every enabled module and app in every active company: the anchor on every pass, the `system` tuple
//! once.

use uuid::Uuid;

use crate::app::{made, start};

fn pair(company: Uuid, key: &str) -> Vec<String> {
    let object = format!("company_module:{company}/{key}");
    vec![format!("{object}#company@company:{company}"), format!("{object}#system@system:platform")]
}

fn sorted(mut tuples: Vec<String>) -> Vec<String> {
    tuples.sort();
    tuples
}

#[tokio::test]
async fn a_start_grants_what_it_installs_in_every_active_company() {
    let app = start(&[made("alpha", 8201), made("beta", 8202)], "").await;
    let (acme, bolt) = (app.company("ACME", true).await, app.company("BOLT", true).await);
    app.company("GONE", false).await;
    assert!(app.tuples().await.is_empty());
    let app = app.restart(&[made("alpha", 8201), made("beta", 8202)], "alpha").await;
    assert_eq!(app.tuples().await, sorted([pair(acme, "alpha"), pair(bolt, "alpha")].concat()));
    let expected = [
        "module.installed module:alpha system:registry",
        "default_grants.written catalog:default_grants system:registry",
    ];
    assert_eq!(app.audit().await[2..], expected);
    app.end().await;
}

#[tokio::test]
async fn a_deleted_system_tuple_never_comes_back_and_an_anchor_always_does() {
    let modules = [made("alpha", 8201)];
    let app = start(&modules, "alpha").await;
    let acme = app.company("ACME", true).await;
    let app = app.restart(&modules, "alpha").await;
    assert_eq!(app.tuples().await, pair(acme, "alpha"));
    app.sql("DELETE FROM authz.tuple").await;
    let anchor = pair(acme, "alpha").swap_remove(0);
    assert_eq!(app.disable("alpha").await.status, 200);
    assert_eq!(app.enable("alpha").await.status, 200);
    assert_eq!(app.tuples().await, std::slice::from_ref(&anchor));
    let app = app.restart(&modules, "alpha").await;
    let bolt = app.company("BOLT", true).await;
    let app = app.restart(&modules, "alpha").await;
    assert_eq!(app.tuples().await, sorted([vec![anchor], pair(bolt, "alpha")].concat()));
    app.end().await;
}

#[tokio::test]
async fn disable_and_enable_change_no_tuple() {
    let app = start(&[made("alpha", 8201)], "").await;
    app.company("ACME", true).await;
    let app = app.restart(&[made("alpha", 8201)], "alpha").await;
    let before = app.tuples().await;
    assert_eq!(app.disable("alpha").await.status, 200);
    assert_eq!(app.tuples().await, before);
    assert_eq!(app.enable("alpha").await.status, 200);
    assert_eq!(app.tuples().await, before);
    app.end().await;
}

#[tokio::test]
async fn an_app_gets_them_when_it_is_enabled() {
    let app = start(&[], "").await;
    let acme = app.company("ACME", true).await;
    assert_eq!(app.register(crate::apps::manifest("crm", "1.0.0")).await.status, 200);
    assert!(app.tuples().await.is_empty());
    assert_eq!(app.enable("crm").await.status, 200);
    assert_eq!(app.tuples().await, pair(acme, "crm"));
    app.end().await;
}

#[tokio::test]
async fn a_company_made_while_a_module_is_enabled_is_never_left_out() {
    let app = start(&[made("alpha", 8201)], "alpha").await;
    assert_eq!(app.disable("alpha").await.status, 200);
    let mut making = app.owner.begin().await.expect("a transaction");
    sqlx::query("SELECT pg_advisory_xact_lock_shared(hashtextextended('platform.default_grants', 0))")
        .execute(&mut *making)
        .await
        .expect("org's lock");
    let enabling = app.api.post("/internal/platform/modules/alpha/enable").bearer(&app.admin);
    let enabling = tokio::spawn(enabling.send());
    app.blocked().await;
    let acme = Uuid::now_v7();
    sqlx::query("INSERT INTO org.units(id, company_id, type_key, depth, code, name) VALUES ($1, $1, 'company', 0, 'ACME', 'Acme')")
        .bind(acme)
        .execute(&mut *making)
        .await
        .expect("a company");
    making.commit().await.expect("committed");
    assert_eq!(enabling.await.expect("no panic").status, 200);
    assert_eq!(app.tuples().await, pair(acme, "alpha"));
    app.end().await;
}
