//! `POST /internal/platform/apps`.

use serde_json::{Value, json};

use crate::app::{ADMIN, TestApp, fields, made, start};

pub(crate) fn manifest(key: &str, version: &str) -> Value {
    json!({
        "key": key, "displayName": "An app", "version": version, "serviceClientId": format!("{key}-backend"),
        "features": [format!("{key}.deals.read")],
        "authzFragment": {format!("{key}_deal"): {
            "company_module": {"this": true},
            "owner": {"this": true},
            "viewer": {"union": [{"this": true}, {"computedUserset": "owner"}]},
        }},
    })
}

fn with(mut manifest: Value, name: &str, value: Value) -> Value {
    manifest[name] = value;
    manifest
}

/// Registers a manifest and expects 422 for exactly these fields.
async fn refused(app: &TestApp, manifest: Value, expected: &[&str]) {
    let reply = app.register(manifest).await;
    assert_eq!((reply.status, reply.code()), (422, "VALIDATION_FAILED"), "{}", reply.text);
    assert_eq!(fields(&reply), expected);
}

#[tokio::test]
async fn a_new_app_is_installed_and_not_enabled() {
    let app = start(&[made("alpha", 8201)], "").await;
    let before = app.revision().await;
    let reply = app.register(manifest("crm", "1.0.0")).await;
    let capability = json!({"module": "crm", "installed": true, "enabled": false, "dependencies": [], "missingDependencies": []});
    assert_eq!((reply.status, reply.data()), (200, &capability));
    assert_eq!(reply.header("x-catalog-revision"), (before + 1).to_string());
    assert_eq!(app.get("/internal/platform/capabilities/crm").await.data(), &capability);
    assert_eq!(
        app.get("/internal/platform/catalog").await.data().as_array().map(Vec::len),
        Some(1),
        "no catalog entry"
    );
    assert_eq!(app.audit().await[1..], [format!("app.registered app:crm {ADMIN}")]);
    app.end().await;
}

#[tokio::test]
async fn authz_reads_an_apps_facts_in_the_shape_of_a_modules() {
    let app = start(&[], "").await;
    assert_eq!(app.register(manifest("crm", "1.0.0")).await.status, 200);
    let facts = "SELECT jsonb_build_array(kind, installed, enabled, service_client_id, version, features) FROM registry.module_facts";
    let authz = app.database.pool_as("authz");
    let facts: Value = sqlx::query_scalar(facts).fetch_one(&authz).await.expect("facts");
    assert_eq!(facts, json!(["app", true, false, "crm-backend", "1.0.0", ["crm.access", "crm.deals.read"]]));
    let fragment: Value = sqlx::query_scalar("SELECT fragment FROM registry.module_facts")
        .fetch_one(&authz)
        .await
        .expect("one");
    let fragment = contract::fragment::parse(&fragment.to_string(), "crm").expect("a fragment");
    assert_eq!(fragment.relations["crm_deal"].len(), 3);
    app.end().await;
}

#[tokio::test]
async fn versions_only_rise() {
    let app = start(&[], "").await;
    for (version, status) in
        [("1.0.0", 200), ("1.0.0", 200), ("1.1.0", 200), ("1.0.5", 422), ("1.9.0", 200), ("1.10.0", 200)]
    {
        assert_eq!(app.register(manifest("crm", version)).await.status, status, "{version}");
    }
    refused(&app, manifest("crm", "1.9.0"), &["version lower"]).await;
    refused(&app, with(manifest("crm", "1.10.0"), "displayName", json!("Other")), &["version content"]).await;
    let updated = format!("app.updated app:crm {ADMIN}");
    let expected = [&format!("app.registered app:crm {ADMIN}"), &updated, &updated, &updated];
    assert_eq!(app.audit().await.iter().collect::<Vec<_>>(), expected);
    app.end().await;
}

#[tokio::test]
async fn an_update_keeps_enabled_and_may_change_everything_else() {
    let app = start(&[], "").await;
    assert_eq!(app.register(manifest("crm", "1.0.0")).await.status, 200);
    assert_eq!(app.enable("crm").await.status, 200);
    let mut newer = with(manifest("crm", "2.0.0"), "serviceClientId", json!("other-backend"));
    newer["features"] = json!([]);
    let reply = app.register(newer).await;
    assert_eq!((reply.status, &reply.data()["enabled"]), (200, &json!(true)));
    assert_eq!(
        app.register(with(manifest("erp", "1.0.0"), "serviceClientId", json!("crm-backend"))).await.status,
        200
    );
    app.end().await;
}

#[tokio::test]
async fn a_manifest_that_lacks_keys_or_has_wrong_types_is_400() {
    let app = start(&[], "").await;
    let reply = app.register(json!({"features": "all", "version": 1})).await;
    assert_eq!((reply.status, reply.code()), (400, "VALIDATION_ERROR"));
    let mut found = fields(&reply);
    found.sort();
    let expected = [
        "authzFragment required",
        "displayName required",
        "features type",
        "key required",
        "serviceClientId required",
        "version type",
    ];
    assert_eq!(found, expected);
    let reply = app.register(with(manifest("crm", "1.0.0"), "displayName", json!("a\0b"))).await;
    assert_eq!((reply.status, fields(&reply)), (400, vec!["displayName control".to_owned()]));
    for body in ["{", "[]", "null", "\"crm\""] {
        let call = app
            .api
            .post("/internal/platform/apps")
            .bearer(&app.admin)
            .header("content-type", "application/json");
        let reply = call.body(body).send().await;
        assert_eq!((reply.status, reply.code()), (400, "BAD_REQUEST"), "{body}");
    }
    let call =
        app.api.post("/internal/platform/apps").bearer(&app.admin).body(manifest("crm", "1.0.0").to_string());
    assert_eq!(call.send().await.code(), "BAD_REQUEST", "no content type");
    let huge = with(manifest("crm", "1.0.0"), "_note", json!("x".repeat(1 << 20)));
    assert_eq!(app.register(huge).await.status, 413);
    assert!(app.audit().await.is_empty());
    app.end().await;
}

#[tokio::test]
async fn each_rule_names_its_field_and_leaves_the_catalog_as_it_was() {
    let app = start(&[made("alpha", 8201)], "").await;
    let (revision, capabilities) =
        (app.revision().await, app.get("/internal/platform/capabilities").await.text);
    let good = || manifest("crm", "1.0.0");
    let deal = |relations: Value| with(good(), "authzFragment", json!({"crm_deal": relations}));
    let seen = |expression: Value| deal(json!({"company_module": {"this": true}, "seen": expression}));
    refused(&app, with(with(good(), "key", json!("CRM")), "features", json!([])), &["key pattern"]).await;
    refused(
        &app,
        with(manifest("alpha", "1.0.0"), "serviceClientId", json!("crm-backend")),
        &["key reserved"],
    )
    .await;
    refused(
        &app,
        with(manifest("platform", "1.0.0"), "serviceClientId", json!("crm-backend")),
        &["key reserved"],
    )
    .await;
    refused(&app, with(good(), "version", json!("1")), &["version semver"]).await;
    refused(&app, with(good(), "serviceClientId", json!("Crm")), &["serviceClientId pattern"]).await;
    refused(&app, with(good(), "serviceClientId", json!("platform-frontend")), &["serviceClientId reserved"])
        .await;
    refused(
        &app,
        with(good(), "features", json!(["erp.a", "crm.access", "crm.b", "crm.b"])),
        &["features[0] prefix", "features[1] reserved", "features[3] unique"],
    )
    .await;
    refused(&app, with(good(), "colour", json!(1)), &["colour unknown_key"]).await;
    refused(
        &app,
        with(good(), "authzFragment", json!({"company": {"company_module": {"this": true}}})),
        &["authzFragment.company base_type"],
    )
    .await;
    refused(&app, deal(json!({"owner": {"this": true}})), &["authzFragment.crm_deal.company_module anchor"])
        .await;
    refused(
        &app,
        seen(json!({"computedUserset": "nobody"})),
        &["authzFragment.crm_deal.seen.computedUserset relation"],
    )
    .await;
    refused(&app, seen(json!({"union": []})), &["authzFragment.crm_deal.seen.union union"]).await;
    refused(&app, seen(json!({"this": false})), &["authzFragment.crm_deal.seen.this this"]).await;
    refused(
        &app,
        seen(json!({"intersection": [{"this": true}]})),
        &["authzFragment.crm_deal.seen.intersection operator"],
    )
    .await;
    let nowhere = json!({"tupleToUserset": {"tupleset": "company_module", "computedUserset": "nobody"}});
    refused(&app, seen(nowhere), &["authzFragment.crm_deal.seen.tupleToUserset.computedUserset target"])
        .await;
    let deep = (0..16).fold(json!({"this": true}), |inner, _| json!({"union": [inner]}));
    let path = format!("authzFragment.crm_deal.seen{} nesting", ".union[0]".repeat(16));
    refused(&app, seen(deep), &[&path]).await;
    let types: Value = (0..65)
        .map(|n| (format!("t{n}"), json!({"company_module": {"this": true}})))
        .collect::<serde_json::Map<_, _>>()
        .into();
    refused(&app, with(good(), "authzFragment", types), &["authzFragment limit"]).await;
    assert_eq!(app.revision().await, revision);
    assert_eq!(app.get("/internal/platform/capabilities").await.text, capabilities);
    assert_eq!(app.audit().await.len(), 1, "only what the start wrote");
    app.end().await;
}

#[tokio::test]
async fn clients_and_types_belong_to_one_app() {
    let app = start(&[], "").await;
    assert_eq!(app.register(manifest("crm", "1.0.0")).await.status, 200);
    let mut thief = with(manifest("erp", "1.0.0"), "serviceClientId", json!("crm-backend"));
    thief["authzFragment"] = json!({"crm_deal": {"company_module": {"this": true}}});
    refused(&app, thief, &["serviceClientId unique", "authzFragment.crm_deal unique"]).await;
    let mut guest = manifest("erp", "1.0.0");
    guest["authzFragment"] = json!({"erp_note": {
        "company_module": {"this": true}, "deal": {"this": true},
        "reader": {"tupleToUserset": {"tupleset": "deal", "computedUserset": "owner"}},
    }});
    assert_eq!(
        app.register(guest).await.status,
        200,
        "another app's relations are part of the effective model"
    );
    app.end().await;
}

#[tokio::test]
async fn what_has_tuples_cannot_be_left_out() {
    let app = start(&[], "").await;
    assert_eq!(app.register(manifest("crm", "1.0.0")).await.status, 200);
    app.sql("INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, source) VALUES ('crm_deal', '1', 'viewer', 'user', 'alice', 'grant')").await;
    let without = |relations: Value| with(manifest("crm", "2.0.0"), "authzFragment", relations);
    refused(&app, without(json!({})), &["authzFragment.crm_deal in_use"]).await;
    let fewer = json!({"crm_deal": {"company_module": {"this": true}, "owner": {"this": true}}});
    refused(&app, without(fewer), &["authzFragment.crm_deal.viewer in_use"]).await;
    let unused = json!({"crm_deal": {"company_module": {"this": true}, "viewer": {"this": true}}});
    assert_eq!(app.register(without(unused)).await.status, 200, "no tuple uses owner");
    app.sql("DELETE FROM authz.tuple").await;
    let reply = app.register(with(manifest("crm", "3.0.0"), "authzFragment", json!({}))).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    assert_eq!(
        app.register(with(
            manifest("erp", "1.0.0"),
            "authzFragment",
            json!({"crm_deal": {"company_module": {"this": true}}})
        ))
        .await
        .status,
        200,
        "a removed type is free"
    );
    app.end().await;
}

#[tokio::test]
async fn of_many_at_once_the_highest_stands() {
    let app = start(&[], "").await;
    let calls = (0..20).map(|n| {
        let body = manifest("crm", &format!("1.{}.0", (n * 7) % 20));
        tokio::spawn(app.api.post("/internal/platform/apps").bearer(&app.admin).json(body).send())
    });
    let mut accepted = 0;
    for call in calls.collect::<Vec<_>>() {
        let reply = call.await.expect("no panic");
        assert!([200, 422].contains(&reply.status), "{}", reply.text);
        accepted += usize::from(reply.status == 200);
    }
    let version: String = sqlx::query_scalar("SELECT version FROM registry.modules")
        .fetch_one(&app.owner)
        .await
        .expect("one app");
    assert_eq!(version, "1.19.0");
    let audit = app.audit().await;
    assert_eq!(audit.len(), accepted, "one row per change");
    assert_eq!(audit.iter().filter(|row| row.starts_with("app.registered")).count(), 1);
    let versions: i64 = sqlx::query_scalar("SELECT count(*) FROM registry.module_versions")
        .fetch_one(&app.owner)
        .await
        .expect("a count");
    assert_eq!(usize::try_from(versions), Ok(accepted));
    app.end().await;
}
