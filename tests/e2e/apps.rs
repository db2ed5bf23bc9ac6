//! An app's lifecycle, from registration to disabling, with every refusal on the way; then each rule of a manifest,
//! refused through the gateway; then twenty administrators who register one app at once.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;

use contract::rules;
use reqwest::Method;
use serde_json::{Value, json};

use crate::cases;
use crate::harness::client::Version;
use crate::harness::login::subject;
use crate::harness::process::port_offset;
use crate::harness::{Api, Reply, Together};
use crate::tour::{create_company, create_member, link};

const CLIENT: &str = "crm-backend";
const SECRET: &str = "a-secret-of-the-test";
const APPS: &str = "/api/platform/admin/apps";
const GRANTS: &str = "/api/auth/grants";
const CAN: &str = "/api/auth/effective-access/can";

/// All participants.
struct Cast {
    admin: Api,
    alice: Api,
    bob: Api,
    /// The app's backend, with its service token.
    backend: Api,
    alice_subject: String,
    backend_subject: String,
    company: String,
    /// A company of which the app's account is not a member.
    other: String,
}

#[tokio::test]
async fn an_apps_life() {
    let platform = start("apps");
    let cast = cast(&platform).await;
    unknown_before_it_is_registered(&cast).await;
    registered(&cast).await;
    enabled_and_not_yet_a_member(&cast).await;
    a_member(&cast).await;
    objects_and_decisions(&cast).await;
    updated(&cast).await;
    disabled(&cast).await;
    refused_by_every_rule(&cast.admin).await;
    registered_by_twenty_at_once(&cast.admin).await;
}

fn start(name: &str) -> Together {
    let variables =
        [("PLATFORM_SERVICE_CLIENTS", CLIENT), ("PLATFORM_SERVICE_CLIENT_SECRET_CRM_BACKEND", SECRET)];
    Together::start_with(name, port_offset(), &variables)
}

async fn cast(platform: &Together) -> Cast {
    let api = platform.api(Version::Http2);
    let admin = api.with_token(&platform.token("admin").await);
    let (alice, bob) = (platform.token("alice").await, platform.token("bob").await);
    let backend = platform.client_token(CLIENT, SECRET).await;
    let (alice_subject, backend_subject) = (subject(&alice), subject(&backend));
    let (company, other) = (create_company(&admin, "ACME").await, create_company(&admin, "GLOBEX").await);
    let [alice, bob, backend] = [&alice, &bob, &backend].map(|token| api.with_token(token));
    for one in [&alice, &bob, &backend] {
        // The first request makes the account known.
        one.get("/api/org/me/companies").await.data(200);
    }
    let member = create_member(&admin, &company, "A1").await;
    link(&admin, &member, &alice_subject).await;
    Cast { admin, alice, bob, backend, alice_subject, backend_subject, company, other }
}

fn manifest(version: &str) -> Value {
    json!({
        "key": "crm", "displayName": "CRM", "version": version, "serviceClientId": CLIENT,
        "features": ["crm.deals.read"],
        "authzFragment": {"crm_deal": {
            "company_module": {"this": true},
            "owner": {"this": true},
            "viewer": {"union": [{"this": true}, {"computedUserset": "owner"},
                {"tupleToUserset": {"tupleset": "company_module", "computedUserset": "admin"}}]}
        }}
    })
}

async fn unknown_before_it_is_registered(cast: &Cast) {
    cast.backend.get(&by_subject(cast)).await.refused(403, "FORBIDDEN");
    cast.backend.post(GRANTS, grant(cast, &cast.company, "deal-1")).await.refused(403, "FORBIDDEN");
    cast.backend.post(APPS, manifest("1.0.0")).await.refused(403, "PLATFORM_ROLE_REQUIRED");
    cast.admin.get("/api/platform/capabilities/crm").await.refused(404, "NOT_FOUND");
    enable(cast, "enable").await.refused(404, "NOT_FOUND");
}

async fn registered(cast: &Cast) {
    let capability = json!({"module": "crm", "installed": true, "enabled": false, "dependencies": [], "missingDependencies": []});
    assert_eq!(cast.admin.post(APPS, manifest("1.0.0")).await.data(200), &capability);
    assert_eq!(cast.bob.get("/api/platform/capabilities/crm").await.data(200), &capability);
    // The account counts as the app's backend at once, and nothing is proxied to the app.
    let found = cast.backend.get(&by_subject(cast)).await;
    assert_eq!(found.data(200)["isMember"], true);
    let proxied = cast.alice.get("/api/crm/v1/deals").await;
    proxied.refused(404, "NOT_FOUND");
    assert_eq!(proxied.body["error"]["details"]["reason"], "APP_IS_NOT_PROXIED");
    // Not enabled: grants do not know its types, and decisions say so.
    cast.backend.post(GRANTS, grant(cast, &cast.company, "deal-1")).await.refused(422, "VALIDATION_FAILED");
    decides(&cast.alice, &question(cast, "deal-1", "owner"), "MODULE_DISABLED").await;
}

async fn enabled_and_not_yet_a_member(cast: &Cast) {
    assert_eq!(enable(cast, "enable").await.data(200)["enabled"], true);
    let refused = cast.backend.post(GRANTS, grant(cast, &cast.company, "deal-1")).await;
    refused.refused(403, "AUTHORIZATION_DENIED");
    assert_eq!(refused.body["error"]["details"]["reason"], "COMPANY_MEMBERSHIP_REQUIRED");
    cast.backend.get(&directory(cast)).await.refused(403, "FORBIDDEN");
    cast.backend.get("/api/org/admin/members?companyId=x").await.refused(403, "PLATFORM_ROLE_REQUIRED");
    let spoofed = cast.backend.with_header("x-user-id", &cast.alice_subject).get(&by_subject(cast)).await;
    spoofed.refused(400, "BAD_REQUEST");
}

async fn a_member(cast: &Cast) {
    let account = create_member(&cast.admin, &cast.company, "APP-CRM").await;
    link(&cast.admin, &account, &cast.backend_subject).await;
    // Anchor and owner together create the object.
    let made = cast.backend.post(GRANTS, grant(cast, &cast.company, "deal-1")).await;
    assert_eq!((&made.data(200)["status"], &made.data(200)["count"]), (&json!("granted"), &json!(2)));
    // In another company the subject has no rights.
    let foreign = cast.backend.post(GRANTS, grant(cast, &cast.other, "deal-9")).await;
    foreign.refused(403, "AUTHORIZATION_DENIED");
    assert_eq!(foreign.body["error"]["details"]["reason"], "COMPANY_MEMBERSHIP_REQUIRED");
    // Another owner's type, a base type, an object without an anchor, and the tier of its own module.
    for (status, code, tuple) in [
        (403, "FORBIDDEN", tuple(cast, "docs_document", "d1", "viewer")),
        (422, "VALIDATION_FAILED", tuple(cast, "company", &cast.company, "admin")),
        (422, "VALIDATION_FAILED", tuple(cast, "crm_lead", "l1", "owner")),
        (422, "VALIDATION_FAILED", tuple(cast, "crm_deal", "deal-without-anchor", "owner")),
        (422, "VALIDATION_FAILED", tuple(cast, "crm_deal", "deal-1", "boss")),
    ] {
        let body = json!({"op": "grant", "companyId": cast.company, "tuples": [tuple]});
        let reply = cast.backend.post(GRANTS, body.clone()).await;
        assert_eq!(reply.status.as_u16(), status, "{body}: {}", reply.body);
        if status != 403 {
            reply.refused(status, code);
        }
    }
}

async fn objects_and_decisions(cast: &Cast) {
    decides(&cast.alice, &question(cast, "deal-1", "owner"), "ALLOWED").await;
    decides(&cast.alice, &question(cast, "deal-1", "viewer"), "ALLOWED").await;
    decides(&cast.backend, &question(cast, "deal-1", "viewer"), "ENGINE_DENIED").await;
    decides(&cast.bob, &question(cast, "deal-1", "viewer"), "COMPANY_MEMBERSHIP_REQUIRED").await;
    decides(&cast.alice, &question(cast, "deal-2", "owner"), "ENGINE_DENIED").await;
    let mut unknown = question(cast, "deal-1", "viewer");
    unknown["featureKey"] = json!("crm.deals.burn");
    cast.alice.post(CAN, unknown).await.refused(422, "VALIDATION_FAILED");
    let mut other = question(cast, "deal-1", "viewer");
    other["actorId"] = json!(cast.backend_subject);
    cast.alice.post(CAN, other).await.refused(400, "VALIDATION_ERROR");
    let path = format!("/api/org/companies/{}/members/by-subject/nobody", cast.company);
    assert_eq!(
        cast.backend.get(&path).await.data(200),
        &json!({"isMember": false, "isActive": false, "memberId": null})
    );
    cast.alice.get(&by_subject(cast)).await.refused(403, "FORBIDDEN");
}

async fn updated(cast: &Cast) {
    let mut newer = manifest("1.1.0");
    newer["features"] = json!(["crm.deals.read", "crm.deals.burn"]);
    assert_eq!(cast.admin.post(APPS, newer.clone()).await.data(200)["enabled"], true, "it stays enabled");
    assert_eq!(
        cast.admin.post(APPS, newer.clone()).await.data(200)["enabled"],
        true,
        "registering the same content again is a no-op"
    );
    let mut question = question(cast, "deal-1", "viewer");
    question["featureKey"] = json!("crm.deals.burn");
    decides(&cast.alice, &question, "ALLOWED").await;
    names(&cast.admin.post(APPS, manifest("1.0.9")).await, "version", "lower");
    newer["displayName"] = json!("Other");
    names(&cast.admin.post(APPS, newer).await, "version", "content");
    let mut without = manifest("1.2.0");
    without["authzFragment"] = json!({});
    names(&cast.admin.post(APPS, without).await, "authzFragment.crm_deal", "in_use");
}

async fn disabled(cast: &Cast) {
    assert_eq!(enable(cast, "disable").await.data(200)["enabled"], false);
    decides(&cast.alice, &question(cast, "deal-1", "owner"), "MODULE_DISABLED").await;
    cast.backend.post(GRANTS, grant(cast, &cast.company, "deal-2")).await.refused(422, "VALIDATION_FAILED");
    assert_eq!(
        cast.backend.get(&by_subject(cast)).await.data(200)["isMember"],
        true,
        "it is still registered"
    );
    assert_eq!(enable(cast, "enable").await.data(200)["enabled"], true);
    decides(&cast.alice, &question(cast, "deal-1", "owner"), "ALLOWED").await;
    assert_eq!(enable(cast, "disable").await.data(200)["enabled"], false);
}

/// Each case of the contract for which a manifest alone is refused: the 422 names its field. The table is printed.
async fn refused_by_every_rule(admin: &Api) {
    let mut rows: Vec<(String, String)> = Vec::new();
    let plain = cases::cases(cases::APP).into_iter();
    // `alpha` stands for a module in registry's own tests; here no module has that name.
    for case in plain.filter(|case| case.refused["key"] != "alpha") {
        let shape = ["app.required", "app.type"].contains(&case.rule.as_str());
        let reply = admin.post(APPS, case.refused).await;
        assert_eq!(reply.status.as_u16(), if shape { 400 } else { 422 }, "{}: {}", case.rule, reply.body);
        rows.push((case.rule, named(&reply, &case.path)));
    }
    for case in cases::cases(cases::RELATIONS) {
        // The type of the cases belongs to crm by now.
        let relations = case.refused.to_string().replace("crm_deal", "erp_deal");
        let body = json!({
            "key": "erp", "displayName": "ERP", "version": "1.0.0", "serviceClientId": "erp-backend",
            "authzFragment": serde_json::from_str::<Value>(&relations).expect("as it was"),
        });
        let reply = admin.post(APPS, body).await;
        assert_eq!(reply.status.as_u16(), 422, "{}: {}", case.rule, reply.body);
        let dot = if case.path.is_empty() { "" } else { "." };
        rows.push((
            case.rule,
            named(&reply, &format!("authzFragment{dot}{}", case.path.replace("crm_deal", "erp_deal"))),
        ));
    }
    let tried: BTreeSet<&str> = rows.iter().map(|(rule, _)| rule.as_str()).collect();
    for rule in rules::RELATIONS {
        assert!(tried.contains(rule.id), "no case violates {}", rule.id);
    }
    let mut table = String::new();
    for (rule, field) in &rows {
        writeln!(table, "{rule:<28} {}", field.chars().take(90).collect::<String>()).expect("text grows");
    }
    writeln!(table, "{} rules, {} refusals through the edge, each with its field", tried.len(), rows.len())
        .expect("text grows");
    std::io::stdout().write_all(table.as_bytes()).expect("the table can be printed");
    admin.get("/api/platform/capabilities/erp").await.refused(404, "NOT_FOUND");
}

async fn registered_by_twenty_at_once(admin: &Api) {
    let calls = (0..20_u32).map(|number| {
        let mut body = manifest(&format!("2.{}.0", (number * 7) % 20));
        body["features"] = json!([format!("crm.of_version.{}", (number * 7) % 20)]);
        let admin = admin.clone();
        tokio::spawn(async move { admin.post(APPS, body).await })
    });
    let mut accepted = 0_usize;
    for call in calls.collect::<Vec<_>>() {
        let reply = call.await.expect("no panic");
        match reply.status.as_u16() {
            200 => accepted += 1,
            _ => names(&reply, "version", "lower"),
        }
    }
    assert!(accepted >= 1);
    // The highest version is stored completely: the same content again is a no-op, other content is refused.
    let mut highest = manifest("2.19.0");
    highest["features"] = json!(["crm.of_version.19"]);
    admin.post(APPS, highest.clone()).await.data(200);
    highest["features"] = json!([]);
    names(&admin.post(APPS, highest).await, "version", "content");
}

fn by_subject(cast: &Cast) -> String {
    format!("/api/org/companies/{}/members/by-subject/{}", cast.company, cast.alice_subject)
}

fn directory(cast: &Cast) -> String {
    format!("/api/org/companies/{}/members", cast.company)
}

fn tuple(cast: &Cast, object_type: &str, id: &str, relation: &str) -> Value {
    json!({"objectType": object_type, "objectId": id, "relation": relation, "subjectType": "user", "subjectId": cast.alice_subject})
}

/// The anchor of a deal and its owner.
fn grant(cast: &Cast, company: &str, deal: &str) -> Value {
    let anchor = json!({"objectType": "crm_deal", "objectId": deal, "relation": "company_module",
        "subjectType": "company_module", "subjectId": format!("{company}/crm")});
    json!({"op": "grant", "companyId": company, "tuples": [anchor, tuple(cast, "crm_deal", deal, "owner")]})
}

fn question(cast: &Cast, deal: &str, relation: &str) -> Value {
    json!({"featureKey": "crm.deals.read", "scope": "company", "moduleKey": "crm", "companyId": cast.company,
        "object": {"type": "crm_deal", "id": deal}, "relation": relation})
}

async fn decides(caller: &Api, question: &Value, reason: &str) {
    let decision = caller.post(CAN, question.clone()).await;
    assert_eq!(decision.data(200)["reason"], reason, "{question}");
    assert_eq!(decision.data(200)["allowed"], reason == "ALLOWED");
}

async fn enable(cast: &Cast, verb: &str) -> Reply {
    cast.admin.send(Method::POST, &format!("/api/platform/admin/modules/crm/{verb}"), None).await
}

/// Checks for a 422 with exactly this field and rule.
fn names(reply: &Reply, path: &str, rule: &str) {
    reply.refused(422, "VALIDATION_FAILED");
    let fields = &reply.body["error"]["details"]["fields"];
    assert_eq!((&fields[0]["path"], &fields[0]["rule"]), (&json!(path), &json!(rule)), "{}", reply.body);
}

/// The only field that the response names, which must be `path`.
fn named(reply: &Reply, path: &str) -> String {
    let fields = reply.body["error"]["details"]["fields"].as_array().expect("fields are named");
    assert_eq!((fields.len(), &fields[0]["path"]), (1, &json!(path)), "{}", reply.body);
    format!("{} {} {}", reply.status.as_u16(), path, fields[0]["rule"])
}
