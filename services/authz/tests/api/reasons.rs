//! Every reason of a denial, the order of the steps, and what binds an object.

use contract::id::CompanyId;
use serde_json::{Value, json};

use crate::app::{App, Rows, evidence, in_company, with};
use crate::can::crm;

/// A valid setup for `alice` in one company with the app `crm`.
async fn house() -> (App, Rows, CompanyId) {
    let app = App::start().await;
    let rows = app.rows();
    let company = rows.company().await;
    rows.subject("alice").await;
    rows.member(company, "alice").await;
    rows.app("crm", &crm(), &["crm.deals.read"]).await;
    rows.defaults(company, "crm").await;
    (app, rows, company)
}

/// A request that needs every step.
fn everything(company: CompanyId) -> Value {
    with(
        in_company(company),
        json!({
            "moduleKey": "crm", "requiredCompanyRole": "admin", "relation": "admin",
            "object": { "type": "company_module", "id": format!("{company}/crm") },
        }),
    )
}

/// Everything starts out wrong; as each step is fixed in order, the next step's reason appears.
#[tokio::test]
async fn steps_are_taken_in_order_each_with_its_reason() {
    let (app, rows, company) = house().await;
    rows.run(format!(
        "DELETE FROM identity.users WHERE kc_sub = 'alice';
         UPDATE org.units SET is_active = false;
         UPDATE org.members SET is_active = false, user_id = 'somebody';
         UPDATE registry.modules SET enabled = false, installed = false;
         DELETE FROM authz.tuple WHERE object_id = '{company}'"
    ))
    .await;
    let insert = "INSERT INTO identity.users(kc_sub, kind, idp_enabled, lifecycle) \
                  VALUES ('alice', 'user', false, 'suspended')";
    let role = format!(
        "INSERT INTO authz.tuple VALUES ('company', '{company}', 'admin', 'user', 'alice', '', 'operator')"
    );
    let tier = format!(
        "INSERT INTO authz.tuple VALUES ('company_module', '{company}/crm', 'admin', 'user', 'alice', '', 'grant')"
    );
    let repairs = [
        ("AUTH_USER_NOT_FOUND", "1", "subject", insert),
        ("IDP_DISABLED", "2", "account", "UPDATE identity.users SET idp_enabled = true"),
        ("USER_LIFECYCLE_DISABLED", "3", "lifecycle", "UPDATE identity.users SET lifecycle = 'active'"),
        ("COMPANY_INACTIVE", "5", "company", "UPDATE org.units SET is_active = true"),
        ("COMPANY_MEMBERSHIP_REQUIRED", "5", "membership", "UPDATE org.members SET user_id = 'alice'"),
        ("COMPANY_ACCESS_BLOCKED", "5", "membership", "UPDATE org.members SET is_active = true"),
        ("COMPANY_ROLE_REQUIRED", "5", "companyRole", &role),
        ("MODULE_DISABLED", "6", "module", "UPDATE registry.modules SET installed = true"),
        ("MODULE_DISABLED", "6", "module", "UPDATE registry.modules SET enabled = true"),
        ("ENGINE_DENIED", "7", "relation", &tier),
    ];
    for (reason, step, stopped, repair) in repairs {
        let reply = app.can("alice", everything(company)).await;
        let decision = reply.data();
        assert_eq!(decision["reason"], reason, "{decision}");
        assert_eq!(evidence(&decision["evidence"], "step"), step, "{reason}");
        assert_eq!(evidence(&decision["evidence"], "stoppedAt"), stopped, "{reason}");
        rows.run(repair).await;
    }
    assert_eq!(app.reason("alice", everything(company)).await, "ALLOWED");
}

#[tokio::test]
async fn global_scope_asks_the_platform_role_then_the_module() {
    let (app, rows, company) = house().await;
    let global = |more: Value| {
        let base = json!({ "featureKey": "crm.access", "scope": "global", "requiredPlatformRole": "platform-superadmin" });
        with(base, more)
    };
    assert_eq!(app.reason("root", global(json!({}))).await, "ALLOWED");
    assert_eq!(app.reason("alice", global(json!({}))).await, "PLATFORM_ROLE_REQUIRED");
    let other_role = global(json!({ "requiredPlatformRole": "platform-owner" }));
    assert_eq!(app.reason("root", other_role).await, "PLATFORM_ROLE_REQUIRED");
    rows.run("UPDATE registry.modules SET enabled = false").await;
    assert_eq!(app.reason("root", global(json!({ "moduleKey": "crm" }))).await, "MODULE_DISABLED");
    assert_eq!(app.reason("root", global(json!({ "moduleKey": "nothing" }))).await, "MODULE_DISABLED");
    let nobody = json!({ "moduleKey": "crm" });
    assert_eq!(app.reason("alice", global(nobody)).await, "PLATFORM_ROLE_REQUIRED", "the role comes first");
    let relation = json!({ "object": { "type": "company_module", "id": format!("{company}/crm") }, "relation": "admin" });
    assert_eq!(app.reason("root", global(relation.clone())).await, "MODULE_DISABLED", "of the object");
    rows.run("UPDATE registry.modules SET enabled = true").await;
    assert_eq!(app.reason("root", global(relation)).await, "ALLOWED", "company steps are skipped");
}

#[tokio::test]
async fn module_states_are_told_apart_in_the_evidence() {
    let (app, rows, company) = house().await;
    let request = |module: &str| with(in_company(company), json!({ "moduleKey": module }));
    for (change, module, state) in [
        ("SELECT 1", "nothing", "unknown"),
        ("UPDATE registry.modules SET enabled = false", "crm", "disabled"),
        ("UPDATE registry.modules SET installed = false", "crm", "not installed"),
    ] {
        rows.run(change).await;
        let reply = app.can("alice", request(module)).await;
        assert_eq!(reply.data()["reason"], "MODULE_DISABLED");
        assert_eq!(evidence(&reply.data()["evidence"], "moduleState"), state);
    }
}

#[tokio::test]
async fn a_company_role_nobody_can_hold_is_required_of_operators_too() {
    let (app, _, company) = house().await;
    let request = with(
        in_company(company),
        json!({
            "requiredPlatformRole": "platform-superadmin", "allowPlatformOperatorCompanyScope": true,
            "requiredCompanyRole": "emperor",
        }),
    );
    assert_eq!(app.reason("root", request.clone()).await, "COMPANY_ROLE_REQUIRED");
    let member = with(request, json!({ "requiredCompanyRole": "member" }));
    assert_eq!(app.reason("root", member).await, "COMPANY_ROLE_REQUIRED");
}

#[tokio::test]
async fn an_object_is_bound_to_the_company_and_module_of_the_request() {
    let (app, rows, company) = house().await;
    let other = rows.company().await;
    rows.member(other, "alice").await;
    rows.defaults(other, "crm").await;
    let notes = json!({ "notes_note": { "company_module": { "this": true }, "viewer": { "this": true } } });
    rows.app("notes", &notes, &[]).await;
    for (object, anchor) in [
        ("crm_deal:here", Some(format!("{company}/crm"))),
        ("crm_deal:there", Some(format!("{other}/crm"))),
        ("crm_deal:nowhere", None),
        ("crm_deal:both", Some(format!("{company}/crm"))),
        ("crm_deal:askew", Some(format!("{company}/notes"))),
        ("notes_note:here", Some(format!("{company}/notes"))),
    ] {
        rows.tuple(&format!("{object}#viewer@user:alice"), "grant").await;
        if let Some(anchor) = anchor {
            rows.tuple(&format!("{object}#company_module@company_module:{anchor}"), "grant").await;
        }
    }
    rows.tuple(&format!("crm_deal:both#company_module@company_module:{other}/crm"), "grant").await;
    rows.tuple("group:g#member@user:alice", "org").await;
    let own = format!("{company}/crm");
    let theirs = format!("{other}/crm");
    let (company_id, other_id) = (company.to_string(), other.to_string());
    for (kind, id, relation, anchor, reason) in [
        ("crm_deal", "here", "viewer", "bound", "ALLOWED"),
        ("crm_deal", "there", "viewer", "missing", "ENGINE_DENIED"),
        ("crm_deal", "nowhere", "viewer", "missing", "ENGINE_DENIED"),
        ("crm_deal", "both", "viewer", "missing", "ENGINE_DENIED"),
        ("crm_deal", "askew", "viewer", "missing", "ENGINE_DENIED"),
        ("notes_note", "here", "viewer", "other module", "ENGINE_DENIED"),
        ("company_module", &own, "member", "bound", "ALLOWED"),
        ("company_module", &theirs, "member", "elsewhere", "ENGINE_DENIED"),
        ("company_module", "crm", "member", "missing", "ENGINE_DENIED"),
        ("company", &company_id, "member", "bound", "ALLOWED"),
        ("company", &other_id, "member", "elsewhere", "ENGINE_DENIED"),
        ("group", "g", "member", "missing", "ENGINE_DENIED"),
        ("system", "platform", "superadmin", "missing", "ENGINE_DENIED"),
    ] {
        let request = with(
            in_company(company),
            json!({ "moduleKey": "crm", "object": { "type": kind, "id": id }, "relation": relation }),
        );
        let reply = app.can("alice", request).await;
        let decision = reply.data();
        assert_eq!(evidence(&decision["evidence"], "anchor"), anchor, "{kind}:{id} {decision}");
        assert_eq!(decision["reason"], reason, "{kind}:{id} {decision}");
    }
}

#[tokio::test]
async fn unknown_types_and_relations_are_denied_and_told() {
    let (app, _, company) = house().await;
    for (kind, relation, told) in [
        ("unicorn", "viewer", "viewer unknown type"),
        ("crm_deal", "rides", "rides unknown relation"),
        ("user", "viewer", "viewer unknown relation"),
    ] {
        let object = json!({ "object": { "type": kind, "id": "1" }, "relation": relation });
        let reply = app.can("alice", with(in_company(company), object)).await;
        assert_eq!(reply.data()["reason"], "ENGINE_DENIED");
        assert_eq!(evidence(&reply.data()["evidence"], "relation"), told);
    }
}
