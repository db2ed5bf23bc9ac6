//! Tasks: create, read, list, replace and delete.

use serde_json::{Value, json};
use testkit::module::tuples::{GRANTS, Tuples};
use testkit::module::{CORRELATION, SUBJECT};
use testkit::{ModuleApi, Reply};
use uuid::Uuid;

use crate::start;

async fn started() -> (ModuleApi, Tuples) {
    let module = start().await;
    let tuples = module.take_tuples();
    (module, tuples)
}

async fn create(module: &ModuleApi, title: &str) -> Value {
    let reply = module.ask("POST", "/tasks", Some(json!({ "title": title }))).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply.data().clone()
}

async fn create_as(module: &ModuleApi, subject: &str, key: Option<&str>, body: Value) -> Reply {
    let call = module.api.post(module.path(module.company, "/tasks")).json(body);
    let call = call.bearer(&module.issuer.issue(subject));
    let call = match key {
        Some(key) => call.header("idempotency-key", key),
        None => call,
    };
    module.send("POST", "/tasks", call).await
}

fn tail(task: &Value) -> String {
    format!("/tasks/{}", task["id"].as_str().unwrap_or_default())
}

async fn titles(module: &ModuleApi, query: &str) -> (Vec<String>, Option<String>) {
    let reply = module.ask("GET", &format!("/tasks?{query}"), None).await;
    let items = reply.data()["items"].as_array().into_iter().flatten();
    let titles = items.filter_map(|task| task["title"].as_str().map(ToOwned::to_owned));
    (titles.collect(), reply.data()["next"].as_str().map(ToOwned::to_owned))
}

#[tokio::test]
async fn a_task_is_created_with_its_tuples_replaced_and_deleted_with_one_audit_row_each() {
    let (module, tuples) = started().await;
    let task = create(&module, "Repair the printer").await;
    let expected = json!({
        "id": task["id"], "companyId": module.company, "owner": SUBJECT, "createdAt": task["createdAt"],
        "title": "Repair the printer", "notes": "", "status": "open",
    });
    assert_eq!(task, expected);
    let (id, company) = (task["id"].as_str().expect("an id"), module.company);
    let anchor = format!("tasks_task:{id}#company_module@company_module:{company}/tasks");
    assert_eq!(tuples.all(), [anchor, format!("tasks_task:{id}#owner@user:{SUBJECT}")]);
    assert_eq!(module.ask("GET", &tail(&task), None).await.data(), &expected);

    let done = json!({ "title": "Repair the printer", "notes": "It was the fuse.", "status": "done" });
    for _ in 0..2 {
        let replaced = module.ask("PUT", &tail(&task), Some(done.clone())).await;
        assert_eq!((replaced.status, &replaced.data()["status"]), (200, &json!("done")), "{}", replaced.text);
    }
    assert_eq!(module.ask("DELETE", &tail(&task), None).await.status, 200);
    assert!(tuples.all().is_empty());
    for (method, body) in [("GET", None), ("PUT", Some(done)), ("DELETE", None)] {
        assert_eq!(module.ask(method, &tail(&task), body).await.status, 404, "{method}");
    }

    let row = |action: &str, payload: Value| {
        json!({ "companyId": company, "actor": SUBJECT, "action": action, "subject": format!("task:{id}"),
            "correlationId": CORRELATION, "payload": payload })
    };
    let change = |from: Value, to: &str| json!({ "from": from, "to": to });
    let new = json!({ "title": change(Value::Null, "Repair the printer"), "notes": change(Value::Null, ""),
        "status": change(Value::Null, "open") });
    let replaced =
        json!({ "notes": change(json!(""), "It was the fuse."), "status": change(json!("open"), "done") });
    let rows = [row("task.created", new), row("task.replaced", replaced), row("task.deleted", json!({}))];
    assert_eq!(module.audit().await, rows);
}

#[tokio::test]
async fn a_list_goes_on_by_cursor_and_holds_the_callers_own_tasks_or_an_administrators_all() {
    let (module, _) = started().await;
    for title in ["one", "two", "three"] {
        create(&module, title).await;
    }
    create_as(&module, "bob-subject", None, json!({ "title": "bob's" })).await;
    module.hold(&["member"]);
    let (first, next) = titles(&module, "pageSize=2").await;
    assert_eq!(first, ["three", "two"]);
    let cursor = next.expect("there are more");
    assert_eq!(titles(&module, &format!("pageSize=2&cursor={cursor}")).await, (vec!["one".to_owned()], None));
    module.hold(&["member", "admin"]);
    assert_eq!(titles(&module, "").await.0, ["bob's", "three", "two", "one"]);
    let other = module.call("GET", &module.path(Uuid::now_v7(), "/tasks")).send().await;
    assert_eq!(other.data()["items"], json!([]), "another company's tasks are unknown");
    let wrong = module.ask("GET", "/tasks?cursor=x&pageSize=101", None).await;
    assert_eq!(wrong.wrong_fields(), ["cursor cursor", "pageSize range"]);
}

#[tokio::test]
async fn a_repetition_under_the_same_key_makes_no_second_task() {
    let (module, tuples) = started().await;
    let body = json!({ "title": "Repair the printer", "status": "open" });
    let first = create_as(&module, SUBJECT, Some("k1"), body.clone()).await;
    let again = create_as(&module, SUBJECT, Some("k1"), body).await;
    assert_eq!((again.status, again.data()), (201, first.data()));
    assert_eq!((again.header("idempotency-replayed"), tuples.all().len()), ("true", 2));
    let other = create_as(&module, SUBJECT, Some("k1"), json!({ "title": "Another" })).await;
    assert_eq!((other.status, other.code()), (422, "IDEMPOTENCY_KEY_REUSED"));
}

#[tokio::test]
async fn a_creation_that_authz_refuses_leaves_nothing_and_one_without_an_answer_is_resumed() {
    let (module, _) = started().await;
    let before = module.contents().await;
    let refusal = json!({ "error": { "code": "AUTHORIZATION_DENIED", "message": "no", "details": null } });
    module.authz.answer("POST", GRANTS, 403, refusal);
    assert_eq!(create_as(&module, SUBJECT, Some("k1"), json!({ "title": "one" })).await.status, 403);
    assert_eq!(module.contents().await, before);
    module.authz.close("POST", GRANTS);
    assert_eq!(create_as(&module, SUBJECT, Some("k1"), json!({ "title": "one" })).await.status, 503);
    assert!(titles(&module, "").await.0.is_empty(), "a task without its tuples is not visible");
    let tuples = module.take_tuples();
    assert_eq!(create_as(&module, SUBJECT, Some("k1"), json!({ "title": "one" })).await.status, 201);
    assert_eq!((titles(&module, "").await.0.len(), tuples.all().len()), (1, 2));
}
