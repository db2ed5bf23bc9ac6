//! `POST /internal/platform/modules/{key}/enable` and `/disable`.

use serde_json::json;

use crate::app::{ADMIN, Made, made, start};

#[tokio::test]
async fn disable_and_enable_are_answered_with_the_revision_that_holds_them() {
    let app = start(&[made("alpha", 8201)], "alpha").await;
    let before = app.revision().await;
    let reply = app.disable("alpha").await;
    assert_eq!((reply.status, reply.data()), (200, &json!({"enabled": false})));
    assert_eq!(reply.header("x-catalog-revision"), (before + 1).to_string());
    let reply = app.enable("alpha").await;
    assert_eq!((reply.status, reply.data()), (200, &json!({"enabled": true})));
    assert_eq!(reply.header("x-catalog-revision"), (before + 2).to_string());
    let expected =
        [format!("module.disabled module:alpha {ADMIN}"), format!("module.enabled module:alpha {ADMIN}")];
    assert_eq!(app.audit().await[2..], expected);
    let correlation = "SELECT correlation_id FROM audit.registry__events ORDER BY seq DESC LIMIT 1";
    let correlation: String = sqlx::query_scalar(correlation).fetch_one(&app.owner).await.expect("a row");
    assert_eq!(correlation, "test-correlation");
    app.end().await;
}

#[tokio::test]
async fn what_is_so_already_changes_nothing() {
    let app = start(&[made("alpha", 8201), made("beta", 8202)], "alpha").await;
    let (audit, revision) = (app.audit().await, app.revision().await);
    let reply = app.enable("alpha").await;
    assert_eq!((reply.status, reply.data()), (200, &json!({"enabled": true})));
    assert_eq!(reply.header("x-catalog-revision"), revision.to_string());
    let reply = app.disable("beta").await;
    assert_eq!((reply.status, reply.data()), (200, &json!({"enabled": false})));
    assert_eq!(app.audit().await, audit);
    assert_eq!(app.revision().await, revision);
    app.end().await;
}

#[tokio::test]
async fn unknown_is_404_and_not_installed_is_409() {
    let app = start(&[made("alpha", 8201)], "").await;
    for unknown in ["beta", "Alpha", "%00", "a%2Fb"] {
        for reply in [app.enable(unknown).await, app.disable(unknown).await] {
            assert_eq!((reply.status, reply.code()), (404, "NOT_FOUND"), "{unknown}");
        }
    }
    let reply = app.enable("alpha").await;
    assert_eq!((reply.status, reply.code()), (409, "MODULE_NOT_INSTALLED"));
    assert_eq!(reply.body["error"]["details"], json!({"moduleKey": "alpha"}));
    assert_eq!(app.audit().await, ["module.registered module:alpha system:registry"]);
    app.end().await;
}

#[tokio::test]
async fn a_mandatory_module_stays_enabled() {
    let app = start(&[Made { mandatory: true, ..made("alpha", 8201) }], "alpha").await;
    let reply = app.disable("alpha").await;
    assert_eq!((reply.status, reply.code()), (422, "VALIDATION_FAILED"));
    assert_eq!(reply.body["error"]["details"]["reason"], json!("MODULE_MANDATORY"));
    assert_eq!(app.get("/internal/platform/capabilities/alpha").await.data()["enabled"], json!(true));
    app.end().await;
}

#[tokio::test]
async fn enabling_wants_no_enabled_dependencies_and_disabling_takes_none_along() {
    let app = start(
        &[Made { needs: vec![("beta", "^1")], ..made("alpha", 8201) }, made("beta", 8202)],
        "alpha,beta",
    )
    .await;
    assert_eq!(app.disable("beta").await.status, 200);
    let alpha = app.get("/internal/platform/capabilities/alpha").await;
    assert_eq!(
        (&alpha.data()["enabled"], &alpha.data()["missingDependencies"]),
        (&json!(true), &json!(["beta"]))
    );
    assert_eq!(app.disable("alpha").await.status, 200);
    assert_eq!(app.enable("alpha").await.status, 200);
    app.end().await;
}

#[tokio::test]
async fn changes_need_a_bearer_and_reads_need_none() {
    let app = start(&[made("alpha", 8201)], "alpha").await;
    for path in ["modules/alpha/enable", "modules/alpha/disable", "apps"] {
        let path = format!("/internal/platform/{path}");
        let reply = app.api.post(&path).send().await;
        assert_eq!((reply.status, reply.code()), (401, "AUTH_TOKEN_MISSING"), "{path}");
        let expired = app.issuer.token(ADMIN).expires_in(-600).sign();
        let reply = app.api.post(&path).bearer(&expired).send().await;
        assert_eq!((reply.status, reply.code()), (401, "AUTH_TOKEN_INVALID"), "{path}");
    }
    assert_eq!(app.audit().await.len(), 2, "only what the start wrote");
    app.end().await;
}

#[tokio::test]
async fn many_at_once_end_in_one_order() {
    let app = start(&[made("alpha", 8201)], "alpha").await;
    let before = app.revision().await;
    let calls = (0..20).map(|n| {
        let word = if n % 2 == 0 { "enable" } else { "disable" };
        let call = app.api.post(format!("/internal/platform/modules/alpha/{word}")).bearer(&app.admin);
        tokio::spawn(call.send())
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.expect("no panic").status, 200);
    }
    let audit = app.audit().await.split_off(2);
    assert_eq!(app.revision().await - before, i64::try_from(audit.len()).expect("few"));
    for pair in audit.windows(2) {
        assert_ne!(pair[0], pair[1], "each change changed something");
    }
    app.end().await;
}
