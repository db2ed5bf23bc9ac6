//! Every reason of a decision, provoked through the gateway over TLS and printed as a table. `AUTH_USER_NOT_FOUND` is
//! requested at authz's own port, because the gateway provisions every caller; `BUSINESS_ELIGIBILITY_DENIED` is
//! reserved and never occurs.

use serde_json::{Value, json};
use sqlx::AssertSqlSafe;

use crate::harness::client::Version;
use crate::harness::login::subject;
use crate::harness::{Api, Together};
use crate::tour::{create_company, create_member, link};

/// A complete company-scope request.
fn question(company: &str, more: Value) -> Value {
    let mut question = json!({
        "featureKey": "timesheet.projects.read", "scope": "company", "moduleKey": "timesheet", "companyId": company,
        "object": {"type": "company_module", "id": format!("{company}/timesheet")}, "relation": "member",
    });
    let (Value::Object(into), Value::Object(more)) = (&mut question, more) else { return question };
    into.extend(more);
    question
}

async fn reason(api: &Api, question: Value) -> String {
    let reply = api.post("/api/auth/effective-access/can", question).await;
    let decision = if reply.status == 503 { &reply.body["error"]["details"] } else { reply.data(200) };
    decision["reason"].as_str().expect("a reason").to_owned()
}

#[tokio::test]
async fn every_reason_is_given_through_the_edge() {
    let platform = Together::start("reasons");
    let api = platform.api(Version::Http2);
    let admin = api.with_token(&platform.token("admin").await);
    let alice_token = platform.token("alice").await;
    let (alice, sub) = (api.with_token(&alice_token), subject(&alice_token));
    let company = create_company(&admin, "ACME").await;
    alice.get("/api/org/me/companies").await.data(200);
    let mut table = Vec::new();
    let mut note = |expected: &str, said: String| {
        assert_eq!(said, expected);
        table.push(format!("{expected:<28} given"));
    };
    note("COMPANY_MEMBERSHIP_REQUIRED", reason(&alice, question(&company, json!({}))).await);
    let member = create_member(&admin, &company, "A1").await;
    link(&admin, &member, &sub).await;
    note("ALLOWED", reason(&alice, question(&company, json!({}))).await);
    note("ENGINE_DENIED", reason(&alice, question(&company, json!({ "relation": "admin" }))).await);
    note(
        "COMPANY_ROLE_REQUIRED",
        reason(&alice, question(&company, json!({ "requiredCompanyRole": "admin" }))).await,
    );
    let nowhere = "01890a5d-ac96-774b-bcce-b302099a8057";
    note("COMPANY_INACTIVE", reason(&alice, question(nowhere, json!({}))).await);
    let global =
        json!({ "featureKey": "x", "scope": "global", "requiredPlatformRole": "platform-superadmin" });
    note("PLATFORM_ROLE_REQUIRED", reason(&alice, global).await);
    let path = format!("/api/org/admin/members/{member}");
    admin.send(reqwest::Method::PUT, &path, Some(json!({ "isActive": false }))).await.data(200);
    note("COMPANY_ACCESS_BLOCKED", reason(&alice, question(&company, json!({}))).await);
    let off = admin.send(reqwest::Method::POST, "/api/platform/admin/modules/timesheet/disable", None).await;
    off.data(200);
    let operator =
        json!({ "requiredPlatformRole": "platform-superadmin", "allowPlatformOperatorCompanyScope": true });
    note("MODULE_DISABLED", reason(&admin, question(&company, operator)).await);
    let rows = platform.database("identity").await;
    let run = async |sql: String| {
        sqlx::query(AssertSqlSafe(sql)).execute(&rows).await.expect("identity's role may");
    };
    run(format!("UPDATE identity.users SET lifecycle = 'suspended' WHERE kc_sub = '{sub}'")).await;
    note("USER_LIFECYCLE_DISABLED", reason(&alice, question(&company, json!({}))).await);
    run(format!("UPDATE identity.users SET idp_enabled = false WHERE kc_sub = '{sub}'")).await;
    note("IDP_DISABLED", reason(&alice, question(&company, json!({}))).await);
    // identity checks again every 10 s, so ask at once.
    run("UPDATE identity.provider_look SET at = now() - interval '400 s'".to_owned()).await;
    note("DEPENDENCY_UNAVAILABLE", reason(&alice, question(&company, json!({}))).await);
    run("UPDATE identity.provider_look SET at = now()".to_owned()).await;
    let stranger = platform.token("carol").await;
    let own_port = platform.service(8140);
    let told = own_port.can(&stranger, &question(&company, json!({}))).await;
    note("AUTH_USER_NOT_FOUND", told["data"]["reason"].as_str().expect("a reason").to_owned());
    let reserved = question(&company, json!({ "requiresEligibility": true }));
    alice.post("/api/auth/effective-access/can", reserved).await.refused(400, "VALIDATION_ERROR");
    rows.close().await;
    counted(&own_port.metrics().await, &table);
    tell(&table);
}

/// Each reason was counted, and the reserved one never.
fn counted(metrics: &str, table: &[String]) {
    let count = |reason: &str| -> f64 {
        let line = metrics.lines().find(|line| {
            line.starts_with("platform_authz_decisions_total{")
                && line.contains(&format!("reason=\"{reason}\""))
        });
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("a series of each reason")
    };
    for line in table {
        let reason = line.split(' ').next().expect("a reason");
        assert!(count(reason) >= 1.0, "{reason}");
    }
    assert!(count("BUSINESS_ELIGIBILITY_DENIED") < 0.5);
    assert_eq!(table.len(), 12, "all but the reserved one");
}

#[expect(clippy::print_stderr, reason = "the table is the test's output")]
fn tell(table: &[String]) {
    eprintln!("{}\nBUSINESS_ELIGIBILITY_DENIED  reserved, never", table.join("\n"));
}
