//! The main journey, over both HTTP versions: a company, a member, a login, a decision, a module, and the module
//! disabled and enabled.

use serde_json::{Value, json};

use crate::harness::client::Version;
use crate::harness::login::subject;
use crate::harness::{Api, Together};

#[tokio::test]
async fn the_tour_over_http1_and_http2() {
    let platform = Together::start("tour");
    for (version, wire, company) in [
        (Version::Http1, reqwest::Version::HTTP_11, "ACME"),
        (Version::Http2, reqwest::Version::HTTP_2, "GLOBEX"),
    ] {
        walk(&platform, platform.api(version), wire, company).await;
    }
}

async fn walk(platform: &Together, api: Api, wire: reqwest::Version, code: &str) {
    let admin = api.with_token(&platform.token("admin").await);
    let alice_token = platform.token("alice").await;
    let alice = api.with_token(&alice_token);
    let bob = api.with_token(&platform.token("bob").await);

    let before = alice.get("/api/org/me/companies").await;
    assert_eq!(before.version, wire);
    assert!(!codes(before.data(200)).contains(&code.to_owned()), "alice is not a member of {code} yet");

    let company = create_company(&admin, code).await;
    let member = create_member(&admin, &company, "A1").await;
    link(&admin, &member, &subject(&alice_token)).await;

    let companies = alice.get("/api/org/me/companies").await;
    assert!(codes(companies.data(200)).contains(&code.to_owned()), "alice sees {code}");
    decides(&alice, &company, "ALLOWED").await;
    decides(&bob, &company, "COMPANY_MEMBERSHIP_REQUIRED").await;
    reads_and_changes_nothing_more(&alice, &bob, &company).await;
    off_and_on(&admin, &alice, &company).await;
}

pub(crate) async fn create_company(admin: &Api, code: &str) -> String {
    let body =
        json!({"typeKey": "company", "code": code.to_lowercase(), "name": format!("{code} Corporation")});
    let created = admin.post("/api/org/admin/units", body).await;
    assert_eq!(created.data(201)["code"], code, "codes of units are normalised to upper case");
    text(&created.data(201)["id"])
}

pub(crate) async fn create_member(admin: &Api, company: &str, code: &str) -> String {
    let body = json!({"companyId": company, "code": code, "displayName": format!("Member {code}")});
    let created = admin.post("/api/org/admin/members", body).await;
    assert_eq!(created.data(201)["userId"], Value::Null, "no login until linked");
    text(&created.data(201)["id"])
}

pub(crate) async fn link(admin: &Api, member: &str, subject: &str) {
    let path = format!("/api/org/admin/members/{member}/link-user");
    let linked = admin.post(&path, json!({ "kcSub": subject })).await;
    assert_eq!(linked.data(200)["userId"], subject);
}

pub(crate) async fn decide(api: &Api, company: &str) -> crate::harness::Reply {
    let question = json!({
        "featureKey": "timesheet.projects.read", "scope": "company", "moduleKey": "timesheet", "companyId": company,
        "object": {"type": "company_module", "id": format!("{company}/timesheet")}, "relation": "member",
    });
    api.post("/api/auth/effective-access/can", question).await
}

async fn decides(api: &Api, company: &str, reason: &str) {
    let decision = decide(api, company).await;
    let decision = decision.data(200);
    assert_eq!((&decision["reason"], &decision["allowed"]), (&json!(reason), &json!(reason == "ALLOWED")));
}

async fn reads_and_changes_nothing_more(alice: &Api, bob: &Api, company: &str) {
    let module = format!("/api/timesheet/v1/companies/{company}");
    assert_eq!(alice.get(&format!("{module}/projects")).await.data(200)["total"], 0);
    assert_eq!(alice.get(&format!("{module}/settings")).await.data(200)["allowedPreviousWeeks"], 4);
    let project = json!({"code": "P1", "name": "Apollo"});
    alice.post(&format!("{module}/projects"), project.clone()).await.refused(403, "AUTHORIZATION_DENIED");
    bob.post(&format!("{module}/projects"), project).await.refused(403, "AUTHORIZATION_DENIED");
    bob.get(&format!("{module}/projects")).await.refused(403, "AUTHORIZATION_DENIED");
    bob.get(&format!("/api/org/companies/{company}/members")).await.refused(403, "FORBIDDEN");
    let unit = json!({"typeKey": "company", "code": "evil", "name": "Evil"});
    alice.post("/api/org/admin/units", unit).await.refused(403, "PLATFORM_ROLE_REQUIRED");
    assert_eq!(alice.get(&format!("{module}/projects")).await.data(200)["total"], 0, "nothing was changed");
}

async fn off_and_on(admin: &Api, alice: &Api, company: &str) {
    let projects = format!("/api/timesheet/v1/companies/{company}/projects");
    for _ in 0..20 {
        let off =
            admin.send(reqwest::Method::POST, "/api/platform/admin/modules/timesheet/disable", None).await;
        assert_eq!(off.data(200)["enabled"], false);
        alice.get(&projects).await.refused(403, "MODULE_DISABLED");
        decides(alice, company, "MODULE_DISABLED").await;
        let on =
            admin.send(reqwest::Method::POST, "/api/platform/admin/modules/timesheet/enable", None).await;
        assert_eq!(on.data(200)["enabled"], true);
        assert_eq!(alice.get(&projects).await.data(200)["total"], 0);
    }
}

fn codes(companies: &Value) -> Vec<String> {
    let companies = companies.as_array().expect("a list");
    companies.iter().map(|company| text(&company["code"])).collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}
