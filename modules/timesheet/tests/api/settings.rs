//! A company's rules.

use serde_json::{Value, json};
use testkit::ModuleApi;
use testkit::module::{CORRELATION, SUBJECT};

use crate::start;

fn defaults(module: &ModuleApi) -> Value {
    json!({
        "companyId": module.company, "enforceBillableWithinActual": true, "allowBillableAboveEightHours": false,
        "allowedPreviousWeeks": 4, "allowedFutureWeeks": 1,
    })
}

#[tokio::test]
async fn a_company_that_never_changed_them_has_the_defaults_and_reading_writes_nothing() {
    let module = start().await;
    let before = module.contents().await;
    let reply = module.ask("GET", "/settings", None).await;
    assert_eq!((reply.status, reply.data()), (200, &defaults(&module)));
    assert_eq!(module.contents().await, before);
}

#[tokio::test]
async fn a_change_keeps_what_it_does_not_name_and_is_audited_once() {
    let module = start().await;
    let body = json!({ "allowedPreviousWeeks": 520, "allowBillableAboveEightHours": true, "unknown": 1 });
    let reply = module.ask("PUT", "/settings", Some(body)).await;
    let mut expected = defaults(&module);
    expected["allowedPreviousWeeks"] = json!(520);
    expected["allowBillableAboveEightHours"] = json!(true);
    assert_eq!((reply.status, reply.data()), (200, &expected));
    assert_eq!(module.ask("GET", "/settings", None).await.data(), &expected);
    let payload = json!({
        "allowedPreviousWeeks": { "from": 4, "to": 520 }, "allowBillableAboveEightHours": { "from": false, "to": true },
    });
    assert_eq!(
        module.audit().await,
        [json!({
            "companyId": module.company, "actor": SUBJECT, "action": "settings.updated",
            "subject": format!("settings:{}", module.company), "correlationId": CORRELATION, "payload": payload,
        })]
    );
}

#[tokio::test]
async fn a_change_of_nothing_writes_nothing() {
    let module = start().await;
    let before = module.contents().await;
    for body in [json!({}), json!({ "allowedFutureWeeks": 1 }), json!({ "allowedFutureWeeks": null })] {
        let reply = module.ask("PUT", "/settings", Some(body)).await;
        assert_eq!((reply.status, reply.data()), (200, &defaults(&module)));
    }
    assert_eq!(module.contents().await, before);
    module.ask("PUT", "/settings", Some(json!({ "allowedFutureWeeks": 2 }))).await;
    let before = module.contents().await;
    module.ask("PUT", "/settings", Some(json!({ "allowedFutureWeeks": 2 }))).await;
    assert_eq!(module.contents().await, before);
}

#[tokio::test]
async fn limits_hold_at_and_one_past() {
    let module = start().await;
    for weeks in [0, 520] {
        let body = json!({ "allowedPreviousWeeks": weeks, "allowedFutureWeeks": weeks });
        let reply = module.ask("PUT", "/settings", Some(body)).await;
        assert_eq!(reply.data()["allowedFutureWeeks"], weeks);
    }
    let before = module.contents().await;
    for (body, expected) in [
        (json!({ "allowedPreviousWeeks": 521 }), "allowedPreviousWeeks range"),
        (json!({ "allowedPreviousWeeks": -1 }), "allowedPreviousWeeks range"),
        (json!({ "allowedFutureWeeks": 521 }), "allowedFutureWeeks range"),
        (json!({ "allowedFutureWeeks": 1.5 }), "allowedFutureWeeks type"),
        (json!({ "allowedFutureWeeks": "1" }), "allowedFutureWeeks type"),
        (json!({ "enforceBillableWithinActual": "true" }), "enforceBillableWithinActual type"),
        (json!({ "allowBillableAboveEightHours": 0 }), "allowBillableAboveEightHours type"),
    ] {
        let reply = module.ask("PUT", "/settings", Some(body)).await;
        assert_eq!(reply.wrong_fields(), [expected]);
    }
    let all = json!({
        "allowedPreviousWeeks": "x", "allowedFutureWeeks": 521, "enforceBillableWithinActual": 1,
        "allowBillableAboveEightHours": [], "note": "a\u{0}b",
    });
    assert_eq!(module.ask("PUT", "/settings", Some(all)).await.wrong_fields().len(), 5, "all at once");
    assert_eq!(module.contents().await, before);
}

#[tokio::test]
async fn what_is_no_json_object_is_a_bad_request() {
    let module = start().await;
    for (content_type, body) in [
        ("text/plain", "{}"),
        ("application/x-www-form-urlencoded", "allowedFutureWeeks=2"),
        ("application/json", ""),
        ("application/json", "{"),
        ("application/json", "[]"),
        ("application/json", "null"),
        ("application/json", "{\"a\": \"\\ud800\"}"),
    ] {
        let call = module.call("PUT", &module.path(module.company, "/settings"));
        let call = call.header("content-type", content_type).body(body);
        let reply = module.send("PUT", "/settings", call).await;
        assert_eq!((reply.status, reply.code()), (400, "BAD_REQUEST"), "{content_type} {body}");
    }
    let call = module.call("PUT", &module.path(module.company, "/settings")).body("{}");
    assert_eq!(module.send("PUT", "/settings", call).await.code(), "BAD_REQUEST", "no content type");
}

#[tokio::test]
async fn a_body_may_have_256_kib_and_no_byte_more() {
    let module = start().await;
    let body = |bytes: usize| {
        let frame = json!({ "note": "" }).to_string().len();
        json!({ "note": "x".repeat(bytes - frame) }).to_string()
    };
    for (bytes, status) in [(262_144, 200), (262_145, 413)] {
        let call = module.call("PUT", &module.path(module.company, "/settings"));
        let call = call.header("content-type", "application/json; charset=utf-8").body(body(bytes));
        let reply = module.send("PUT", "/settings", call).await;
        assert_eq!(reply.status, status, "{bytes}");
        assert_eq!(reply.code(), if status == 413 { "PAYLOAD_TOO_LARGE" } else { "" });
    }
}

#[tokio::test]
async fn companies_do_not_share_their_rules() {
    let module = start().await;
    module.ask("PUT", "/settings", Some(json!({ "allowedFutureWeeks": 9 }))).await;
    let other = uuid::Uuid::now_v7();
    let reply = module.call("GET", &module.path(other, "/settings")).send().await;
    assert_eq!(reply.data()["allowedFutureWeeks"], 1);
    assert_eq!(reply.data()["companyId"], json!(other));
}

#[tokio::test]
async fn partial_changes_at_once_do_not_undo_each_other() {
    let module = start().await;
    let change = |body: Value| module.ask("PUT", "/settings", Some(body));
    for _ in 0..20 {
        let (left, right) = tokio::join!(
            change(json!({ "allowedFutureWeeks": 7, "enforceBillableWithinActual": false })),
            change(json!({ "allowedPreviousWeeks": 7, "allowBillableAboveEightHours": true })),
        );
        assert_eq!((left.status, right.status), (200, 200));
        let rules = module.ask("GET", "/settings", None).await;
        let all = ["allowedFutureWeeks", "allowedPreviousWeeks"].map(|name| rules.data()[name].clone());
        assert_eq!(all, [7, 7]);
        module.ask("PUT", "/settings", Some(defaults(&module))).await;
    }
    assert_eq!(module.audit().await.len(), 60, "each change once");
}
