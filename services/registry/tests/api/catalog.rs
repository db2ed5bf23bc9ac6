//! `GET /internal/platform/capabilities`, `/{module}` and `/catalog`.

use serde_json::json;

use crate::app::{Made, made, start};

fn modules() -> Vec<Made> {
    vec![made("beta", 8202), Made { needs: vec![("beta", "^1")], ..made("alpha", 8201) }, made("gamma", 8203)]
}

#[tokio::test]
async fn capabilities_tell_state_and_what_is_missing() {
    let app = start(&modules(), "alpha").await;
    let capability = |module: &str, is_on: bool, needs: &[&str], missing: &[&str]| json!({"module": module, "installed": is_on, "enabled": is_on, "dependencies": needs, "missingDependencies": missing});
    let alpha = capability("alpha", true, &["beta"], &["beta"]);
    let all = json!([alpha, capability("beta", false, &[], &[]), capability("gamma", false, &[], &[])]);
    assert_eq!(app.get("/internal/platform/capabilities").await.data(), &all);
    assert_eq!(app.get("/internal/platform/capabilities/alpha").await.data(), &alpha);
    for unknown in ["delta", "%00", "a%2Fb"] {
        let reply = app.get(&format!("/internal/platform/capabilities/{unknown}")).await;
        assert_eq!((reply.status, reply.code()), (404, "NOT_FOUND"), "{unknown}");
    }
    app.end().await;
}

#[tokio::test]
async fn the_catalog_lists_modules_by_key() {
    let app = start(&modules(), "beta").await;
    let entry = |key: &str, port: u16, is_active: bool| {
        json!({
            "moduleKey": key, "displayName": key.to_uppercase(), "scopeType": "company", "mandatory": false,
            "basePath": format!("/api/{key}"), "port": port, "healthPath": "/health", "licenseClass": "open",
            "manifestVersion": "1.2.0", "isActive": is_active
        })
    };
    let expected =
        json!([entry("alpha", 8201, false), entry("beta", 8202, true), entry("gamma", 8203, false)]);
    assert_eq!(app.get("/internal/platform/catalog").await.data(), &expected);
    assert_eq!(app.disable("beta").await.status, 200);
    assert_eq!(app.get("/internal/platform/catalog").await.data()[1]["isActive"], json!(false));
    app.end().await;
}
