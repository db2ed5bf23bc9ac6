//! A module's own removal of tuples: what it removes, what it keeps, and who may request it.

use serde_json::{Value, json};
use testkit::Reply;

use crate::app::{in_company, with};
use crate::grants::{ANCHOR, GROUP, OWNER, World};

const REVOKE: &str = "/internal/authz/tuples/revoke";
const BOSS: &str = "company_module:{c}/crm#admin@user:boss";

fn body(world: &World, module: &str, tuples: &[&str]) -> Value {
    let tuples = world.body("revoke", tuples)["tuples"].take();
    json!({ "moduleKey": module, "companyId": world.company, "reason": "MEMBER_RELINKED", "tuples": tuples })
}

async fn ask(world: &World, body: Value) -> Reply {
    let call = world.app.api.post(REVOKE).service().header("x-correlation-id", "test-correlation").json(body);
    let reply = call.send().await;
    world.app.document().check("POST", REVOKE, &reply);
    reply
}

/// The status, and the reason or the first invalid field.
async fn told(world: &World, module: &str, tuples: &[&str]) -> (u16, String) {
    let reply = ask(world, body(world, module, tuples)).await;
    let details = &reply.body["error"]["details"];
    let named = details["fields"][0]["path"].as_str().or_else(|| details["reason"].as_str());
    (reply.status, named.unwrap_or_default().to_owned())
}

async fn revocations(world: &World) -> Vec<Value> {
    let rows = world.app.audit().await;
    rows.into_iter().filter(|row| row["action"] == "tuples.revoked").collect()
}

#[tokio::test]
async fn a_module_takes_what_its_users_hold_at_once_and_once_and_the_audit_row_says_why() {
    let world = World::start().await;
    world.done("alice", "grant", &[ANCHOR, OWNER]).await;
    let asked = with(
        in_company(world.company),
        json!({ "moduleKey": "crm", "relation": "admin",
        "object": { "type": "company_module", "id": format!("{}/crm", world.company) } }),
    );
    assert_eq!(world.app.reason("boss", asked.clone()).await, "ALLOWED");
    for changed in [2, 0] {
        let reply = ask(&world, body(&world, "crm", &[OWNER, BOSS])).await;
        let number = |name: &str| reply.data()[name].as_u64();
        assert_eq!(
            (reply.status, number("count"), number("changed")),
            (200, Some(2), Some(changed)),
            "{}",
            reply.text
        );
        assert_eq!(reply.data()["status"], "revoked");
    }
    assert_eq!(world.app.reason("boss", asked).await, "ENGINE_DENIED", "seen by the next decision");
    let rows = revocations(&world).await;
    let boss = BOSS.replace("{c}", &world.company.to_string());
    let mut taken: Vec<String> = serde_json::from_value(rows[0]["payload"]["tuples"].clone()).expect("texts");
    taken.sort_unstable();
    assert_eq!(taken, [boss, OWNER.to_owned()]);
    assert_eq!(rows.len(), 1, "no change, no audit row");
    for (name, value) in [
        ("actor", json!("service:crm")),
        ("companyId", json!(world.company)),
        ("subject", json!(format!("company:{}", world.company))),
        ("correlationId", json!("test-correlation")),
    ] {
        assert_eq!(rows[0][name], value, "{name}");
    }
    assert_eq!(rows[0]["payload"]["reason"], "MEMBER_RELINKED");
}

#[tokio::test]
async fn it_takes_no_other_modules_no_other_companys_and_no_other_than_users_tuples() {
    let world = World::start().await;
    let group = format!("crm_deal:1#viewer@group:{GROUP}#member");
    world.done("alice", "grant", &[ANCHOR, OWNER, &group]).await;
    let before = world.granted().await;
    let of = |what: &str, status: u16| (status, what.to_owned());
    for (module, tuple, expected) in [
        ("erp", OWNER, of("TYPE_OF_ANOTHER_MODULE", 403)),
        ("erp", BOSS, of("TYPE_OF_ANOTHER_MODULE", 403)),
        ("nosuch", OWNER, of("TYPE_OF_ANOTHER_MODULE", 403)),
        ("crm", ANCHOR, of("tuples[0].subjectType", 422)),
        ("crm", &group, of("tuples[0].subjectType", 422)),
        ("crm", "company_module:{c}/crm#system@system:platform", of("tuples[0].subjectType", 422)),
        ("crm", "company_module:{c}/crm#company@company:{c}", of("tuples[0].relation", 422)),
        ("crm", "company_module:{f}/crm#admin@user:boss", of("tuples[0].objectId", 422)),
        ("crm", "crm_deal:2#owner@user:alice", of("tuples[0].objectId", 422)),
        ("crm", "company:{c}#member@user:alice", of("tuples[0].objectType", 422)),
        ("crm", "system:platform#superadmin@user:root", of("tuples[0].objectType", 422)),
        ("crm", "crm_deal:1#nosuch@user:alice", of("tuples[0].relation", 422)),
    ] {
        assert_eq!(told(&world, module, &[tuple]).await, expected, "{module} {tuple}");
        let (status, _) = told(&world, module, &[OWNER, tuple]).await;
        assert_eq!(status, expected.0, "all or none: {module} {tuple}");
    }
    assert_eq!(world.granted().await, before);
    assert_eq!(revocations(&world).await, Vec::<Value>::new());
}

#[tokio::test]
async fn an_apps_tuples_are_its_own_accounts() {
    let world = World::start_with_apps().await;
    assert_eq!(told(&world, "crm", &[OWNER]).await, (403, "TYPE_OF_AN_APP".to_owned()));
}

#[tokio::test]
async fn only_the_services_credential_opens_it() {
    let world = World::start().await;
    let call = || world.app.api.post(REVOKE).json(body(&world, "crm", &[BOSS]));
    let before = world.granted().await;
    for (call, code) in [
        (call(), "AUTH_TOKEN_MISSING"),
        (call().bearer(&world.app.issuer.issue("root")), "AUTH_TOKEN_INVALID"),
        (call().header("x-platform-service", "not-the-services-credential"), "AUTH_TOKEN_INVALID"),
    ] {
        let reply = call.send().await;
        world.app.document().check("POST", REVOKE, &reply);
        assert_eq!((reply.status, reply.code()), (401, code));
    }
    assert_eq!(world.granted().await, before);
    assert_eq!(call().service().send().await.status, 200, "control");
}

#[tokio::test]
async fn its_fields_have_limits_and_are_named() {
    let world = World::start().await;
    let right = || body(&world, "crm", &[OWNER]);
    let tuple = right()["tuples"][0].take();
    let text = |length: usize| json!("x".repeat(length));
    for (field, value, status) in [
        ("reason", text(200), 422),
        ("reason", text(201), 400),
        ("reason", json!(""), 400),
        ("reason", json!("a\nb"), 400),
        ("reason", Value::Null, 400),
        ("moduleKey", text(64), 403),
        ("moduleKey", text(65), 400),
        ("moduleKey", Value::Null, 400),
        ("companyId", json!("x"), 400),
        ("correlationId", text(200), 422),
        ("correlationId", text(201), 400),
        ("tuples", json!(vec![tuple.clone(); 1_000]), 422),
        ("tuples", json!(vec![tuple.clone(); 1_001]), 400),
        ("tuples", json!([]), 400),
    ] {
        let mut body = right();
        body[field] = value;
        // 422: the deal of the tuple is not anchored, which is checked after the shape.
        let reply = ask(&world, body).await;
        assert_eq!(reply.status, status, "{field}: {}", reply.text);
        let names_it = || reply.wrong_fields().iter().all(|told| told.starts_with(field));
        assert!(status != 400 || names_it(), "{field}: {}", reply.text);
    }
}
