//! The start-up pass.

use serde_json::json;
use service::ServeError;
use sqlx::Row;

use crate::app::{Made, PATIENCE, launch, launch_at, made, start};
use crate::door::Door;

#[tokio::test]
async fn a_first_start_registers_everything_and_installs_what_is_listed() {
    let app = start(&[made("alpha", 8201), made("beta", 8202)], "beta").await;
    let expected = [
        "module.registered module:alpha system:registry",
        "module.registered module:beta system:registry",
        "module.installed module:beta system:registry",
    ];
    assert_eq!(app.audit().await, expected);
    assert_eq!(app.revision().await, 1);
    app.end().await;
}

#[tokio::test]
async fn a_second_start_changes_nothing_and_keeps_what_an_operator_disabled() {
    let modules = [made("alpha", 8201), made("beta", 8202)];
    let app = start(&modules, "alpha,beta").await;
    assert_eq!(app.disable("beta").await.status, 200);
    let (audit, revision) = (app.audit().await, app.revision().await);
    let app = app.restart(&modules, "alpha,beta").await;
    assert_eq!(app.audit().await, audit);
    assert_eq!(app.revision().await, revision);
    assert_eq!(app.get("/internal/platform/capabilities/beta").await.data()["enabled"], json!(false));
    let app = app.restart(&modules, "").await;
    assert_eq!(app.get("/internal/platform/capabilities/alpha").await.data()["enabled"], json!(true));
    app.end().await;
}

#[tokio::test]
async fn a_new_version_is_written_in_place() {
    let app = start(&[made("alpha", 8201)], "alpha").await;
    let thing = json!({"alpha_thing": {"company_module": {"this": true}}});
    let newer = Made { version: "1.10.0", relations: thing, ..made("alpha", 8301) };
    let app = app.restart(&[newer, made("beta", 8201)], "alpha").await;
    let entries = app.get("/internal/platform/catalog").await;
    assert_eq!(entries.data()[0]["manifestVersion"], json!("1.10.0"));
    assert_eq!(entries.data()[0]["port"], json!(8301));
    assert_eq!(entries.data()[0]["isActive"], json!(true));
    let facts = sqlx::query(
        "SELECT fragment -> 'relations', features FROM registry.module_facts WHERE key = 'alpha'",
    );
    let facts = facts.fetch_one(&app.database.pool_as("authz")).await.expect("authz reads the facts");
    assert_eq!(
        facts.get::<serde_json::Value, _>(0),
        json!({"alpha_thing": {"company_module": {"this": true}}})
    );
    assert_eq!(facts.get::<serde_json::Value, _>(1), json!(["alpha.access"]));
    assert_eq!(
        app.audit().await[2..],
        ["module.updated module:alpha system:registry", "module.registered module:beta system:registry"]
    );
    app.end().await;
}

#[tokio::test]
async fn a_module_that_becomes_mandatory_is_enabled() {
    let app = start(&[made("alpha", 8201)], "alpha").await;
    assert_eq!(app.disable("alpha").await.status, 200);
    let app = app.restart(&[Made { mandatory: true, ..made("alpha", 8201) }], "").await;
    assert_eq!(app.get("/internal/platform/capabilities/alpha").await.data()["enabled"], json!(true));
    app.end().await;
}

#[tokio::test]
async fn a_module_whose_key_an_app_has_stops_the_start() {
    let app = start(&[made("alpha", 8201)], "").await;
    assert_eq!(app.register(crate::apps::manifest("beta", "1.0.0")).await.status, 200);
    let database = app.database.clone();
    app.end().await;
    let app = launch(database, &[made("alpha", 8201), made("beta", 8202)], "").await;
    let ended =
        tokio::time::timeout(PATIENCE, app.serving).await.expect("it stops by itself").expect("no panic");
    let Err(ServeError::Unfit(why)) = ended else { panic!("{ended:?}") };
    assert_eq!(why, "the built-in module beta: an app is registered under this key");
}

#[tokio::test]
async fn an_object_type_that_an_app_has_stops_the_start() {
    let app = start(&[], "").await;
    assert_eq!(app.register(crate::apps::manifest("crm", "1.0.0")).await.status, 200);
    let database = app.database.clone();
    app.end().await;
    let thief =
        Made { relations: json!({"crm_deal": {"company_module": {"this": true}}}), ..made("alpha", 8201) };
    let app = launch(database, &[thief], "").await;
    let ended =
        tokio::time::timeout(PATIENCE, app.serving).await.expect("it stops by itself").expect("no panic");
    let Err(ServeError::Unfit(why)) = ended else { panic!("{ended:?}") };
    assert_eq!(why, "the built-in module alpha: \"crm_deal\" already belongs to crm");
}

#[tokio::test]
async fn while_the_database_is_away_routes_are_503_and_the_start_goes_on_when_it_comes() {
    let database = testkit::database().await;
    let door = Door::to(database.port()).await;
    let app = launch_at(database, door.port, &[made("alpha", 8201)], "alpha").await;
    assert_eq!(app.get("/health").await.status, 200);
    assert_eq!(app.get("/ready").await.status, 503);
    for path in ["capabilities", "capabilities/alpha", "catalog", "snapshot"] {
        let reply = app.get(&format!("/internal/platform/{path}")).await;
        assert_eq!((reply.status, reply.code()), (503, "AUTHORIZATION_UNAVAILABLE"), "{path}");
        assert_eq!(reply.body["error"]["details"]["dependency"], json!("postgres"));
    }
    assert_eq!(app.enable("alpha").await.status, 503);
    assert_eq!(app.disable("alpha").await.status, 503);
    assert_eq!(app.register(crate::apps::manifest("crm", "1.0.0")).await.status, 503);
    door.open();
    app.ready().await;
    assert_eq!(app.get("/internal/platform/capabilities/alpha").await.data()["enabled"], json!(true));
    app.end().await;
}

#[tokio::test]
async fn a_start_waits_for_the_grants_of_a_company_that_is_being_made() {
    let database = testkit::database().await;
    let mut making = database.owner_pool().begin().await.expect("a transaction");
    sqlx::query("SELECT pg_advisory_xact_lock_shared(hashtextextended('platform.default_grants', 0))")
        .execute(&mut *making)
        .await
        .expect("org's lock");
    let app = launch(database, &[made("alpha", 8201)], "alpha").await;
    app.blocked().await;
    assert_eq!(app.get("/ready").await.status, 503);
    making.commit().await.expect("committed");
    app.ready().await;
    app.end().await;
}
