//! The `system` tuple of a company's module: a superadmin may remove it, and nothing that the platform does on its own
//! restores it.

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::client::Version;
use crate::harness::{Api, Together};
use crate::tour::create_company;

#[tokio::test]
async fn a_revoked_system_tuple_stays_away() {
    let mut platform = Together::start("system");
    let mut admin = admin(&platform).await;
    let acme = create_company(&admin, "ACME").await;
    administers(&admin, &acme, "ALLOWED").await;
    revoke(&admin, &acme).await;
    administers(&admin, &acme, "ENGINE_DENIED").await;

    switch(&admin, "disable").await;
    switch(&admin, "enable").await;
    administers(&admin, &acme, "ENGINE_DENIED").await;

    let globex = create_company(&admin, "GLOBEX").await;
    administers(&admin, &globex, "ALLOWED").await;
    administers(&admin, &acme, "ENGINE_DENIED").await;

    platform.stop();
    platform.up();
    admin = self::admin(&platform).await;
    administers(&admin, &acme, "ENGINE_DENIED").await;
    administers(&admin, &globex, "ALLOWED").await;
}

async fn admin(platform: &Together) -> Api {
    platform.api(Version::Http2).with_token(&platform.token("admin").await)
}

/// Whether the platform's operator administers the company's timesheet, which is what the tuple grants.
async fn administers(admin: &Api, company: &str, reason: &str) {
    let question = json!({
        "featureKey": "timesheet.settings.update", "scope": "company", "moduleKey": "timesheet", "companyId": company,
        "requiredPlatformRole": "platform-superadmin", "allowPlatformOperatorCompanyScope": true,
        "object": {"type": "company_module", "id": format!("{company}/timesheet")}, "relation": "admin",
    });
    let decision = admin.post("/api/auth/effective-access/can", question).await;
    assert_eq!(decision.data(200)["reason"], reason, "{}", decision.body);
}

async fn revoke(admin: &Api, company: &str) {
    let tuple = json!({
        "objectType": "company_module", "objectId": format!("{company}/timesheet"), "relation": "system",
        "subjectType": "system", "subjectId": "platform",
    });
    let body = |op: &str| json!({"op": op, "companyId": company, "tuples": [tuple]});
    let reply = admin.post("/api/auth/grants", body("revoke")).await;
    assert_eq!(reply.data(200)["status"], Value::from("revoked"));
    admin.post("/api/auth/grants", body("grant")).await.refused(422, "VALIDATION_FAILED");
}

async fn switch(admin: &Api, verb: &str) {
    let path = format!("/api/platform/admin/modules/timesheet/{verb}");
    admin.send(Method::POST, &path, None).await.data(200);
}
