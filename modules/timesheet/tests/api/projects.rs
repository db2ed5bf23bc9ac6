//! Projects: list, create, replace.

use serde_json::{Value, json};
use testkit::ModuleApi;
use testkit::module::{CORRELATION, SUBJECT};
use uuid::Uuid;

use crate::start;

async fn create(module: &ModuleApi, code: &str) -> Value {
    let reply = module.ask("POST", "/projects", Some(json!({ "code": code, "name": "A name" }))).await;
    assert_eq!(reply.status, 201, "{}", reply.text);
    reply.data().clone()
}

fn tail(project: &Value) -> String {
    format!("/projects/{}", project["id"].as_str().expect("an id"))
}

#[tokio::test]
async fn a_new_project_is_active_is_listed_and_is_audited_once() {
    let module = start().await;
    let project = create(&module, "WEB-2026_A").await;
    let expected = json!({
        "id": project["id"], "companyId": module.company, "code": "WEB-2026_A", "name": "A name", "status": "active",
    });
    assert_eq!(project, expected);
    let page = module.ask("GET", "/projects", None).await;
    let expected = json!({ "items": [project], "total": 1, "page": 1, "pageSize": 25, "totalPages": 1 });
    assert_eq!(page.data(), &expected);
    let payload = json!({
        "code": { "from": null, "to": "WEB-2026_A" }, "name": { "from": null, "to": "A name" },
        "status": { "from": null, "to": "active" },
    });
    assert_eq!(
        module.audit().await,
        [json!({
            "companyId": module.company, "actor": SUBJECT, "action": "project.created",
            "subject": format!("project:{}", project["id"].as_str().expect("an id")), "correlationId": CORRELATION,
            "payload": payload,
        })]
    );
}

#[tokio::test]
async fn a_project_may_be_created_inactive_and_a_null_status_is_none() {
    let module = start().await;
    for (code, status, expected) in [("A", json!("inactive"), "inactive"), ("B", Value::Null, "active")] {
        let body = json!({ "code": code, "name": "n", "status": status });
        assert_eq!(module.ask("POST", "/projects", Some(body)).await.data()["status"], expected);
    }
}

#[tokio::test]
async fn limits_hold_at_and_one_past_and_nothing_wrong_is_written() {
    let module = start().await;
    for (code, name) in [("A", "n"), (&*"Z".repeat(20), &*"ä".repeat(100)), ("_-09", "\u{1F600}")] {
        let reply = module.ask("POST", "/projects", Some(json!({ "code": code, "name": name }))).await;
        assert_eq!((reply.status, &reply.data()["name"]), (201, &json!(name)));
    }
    let before = module.contents().await;
    for (body, expected) in [
        (json!({ "code": "Z".repeat(21), "name": "n" }), vec!["code length"]),
        (json!({ "code": "", "name": "n" }), vec!["code length"]),
        (json!({ "code": "web", "name": "n" }), vec!["code pattern"]),
        (json!({ "code": "WEB 1", "name": "n" }), vec!["code pattern"]),
        (json!({ "code": "ÄB", "name": "n" }), vec!["code pattern"]),
        (json!({ "code": "A\n", "name": "n" }), vec!["code control"]),
        (json!({ "code": "AB", "name": "ä".repeat(101) }), vec!["name length"]),
        (json!({ "code": "AB", "name": "" }), vec!["name length"]),
        (json!({ "code": "AB", "name": " \t " }), vec!["name blank"]),
        (json!({ "code": "AB", "name": "a\u{7}b" }), vec!["name control"]),
        (json!({ "code": "AB", "name": "a\u{0}b" }), vec!["name control", "name control"]),
        (json!({ "code": "AB", "name": "n", "status": "done" }), vec!["status enum"]),
        (json!({ "code": "AB", "name": "n", "status": 1 }), vec!["status type"]),
        (json!({ "code": null, "name": 7 }), vec!["code required", "name type"]),
        (json!({}), vec!["code required", "name required"]),
    ] {
        let reply = module.ask("POST", "/projects", Some(body)).await;
        assert_eq!(reply.wrong_fields(), expected);
    }
    assert_eq!(module.contents().await, before);
}

#[tokio::test]
async fn a_code_is_taken_once_in_a_company() {
    let module = start().await;
    let (first, second) = (create(&module, "WEB").await, create(&module, "APP").await);
    let before = module.contents().await;
    let again = module.ask("POST", "/projects", Some(json!({ "code": "WEB", "name": "n" }))).await;
    assert_eq!((again.status, again.code()), (409, "PROJECT_CODE_TAKEN"));
    let renamed = module.ask("PUT", &tail(&second), Some(json!({ "code": "WEB", "name": "n" }))).await;
    assert_eq!((renamed.status, renamed.code()), (409, "PROJECT_CODE_TAKEN"));
    assert_eq!(renamed.body["error"]["details"], json!({ "code": "WEB" }));
    assert_eq!(module.contents().await, before, "and nothing is written");
    let same = module.ask("PUT", &tail(&first), Some(json!({ "code": "WEB", "name": "n" }))).await;
    assert_eq!(same.status, 200, "its own code is free to it");
    let path = module.path(Uuid::now_v7(), "/projects");
    let elsewhere = module.call("POST", &path).json(json!({ "code": "WEB", "name": "n" })).send().await;
    assert_eq!(elsewhere.status, 201, "and to another company");
}

#[tokio::test]
async fn of_many_who_create_one_code_at_once_one_wins() {
    let module = start().await;
    let create = || module.ask("POST", "/projects", Some(json!({ "code": "WEB", "name": "n" })));
    for round in 1..=10 {
        let replies = tokio::join!(create(), create(), create(), create());
        let mut statuses = [replies.0.status, replies.1.status, replies.2.status, replies.3.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [201, 409, 409, 409]);
        assert_eq!(module.audit().await.len(), round, "one audit row a project");
        module.execute("DELETE FROM timesheet.projects".to_owned()).await;
    }
}

#[tokio::test]
async fn an_update_replaces_keeps_an_absent_status_and_is_audited_with_what_changed() {
    let module = start().await;
    let project = create(&module, "WEB").await;
    let body = json!({ "code": "SHOP", "name": "A name", "status": "inactive" });
    let reply = module.ask("PUT", &tail(&project), Some(body)).await;
    let expected = json!({
        "id": project["id"], "companyId": module.company, "code": "SHOP", "name": "A name", "status": "inactive",
    });
    assert_eq!((reply.status, reply.data()), (200, &expected));
    let kept = module.ask("PUT", &tail(&project), Some(json!({ "code": "SHOP", "name": "New" }))).await;
    assert_eq!(kept.data()["status"], "inactive");
    let audit = module.audit().await;
    let payloads: Vec<&Value> = audit.iter().skip(1).map(|row| &row["payload"]).collect();
    assert_eq!(
        payloads,
        [
            &json!({ "code": { "from": "WEB", "to": "SHOP" }, "status": { "from": "active", "to": "inactive" } }),
            &json!({ "name": { "from": "A name", "to": "New" } }),
        ]
    );
    assert!(audit.iter().skip(1).all(|row| row["action"] == "project.updated" && row["actor"] == SUBJECT));
}

#[tokio::test]
async fn an_update_of_nothing_writes_nothing() {
    let module = start().await;
    let project = create(&module, "WEB").await;
    let before = module.contents().await;
    for status in [json!("active"), Value::Null] {
        let body = json!({ "code": "WEB", "name": "A name", "status": status });
        let reply = module.ask("PUT", &tail(&project), Some(body)).await;
        assert_eq!((reply.status, reply.data()), (200, &project));
    }
    assert_eq!(module.contents().await, before);
}

#[tokio::test]
async fn another_companys_project_is_an_unknown_one() {
    let module = start().await;
    let project = create(&module, "WEB").await;
    let before = module.contents().await;
    let body = json!({ "code": "MINE", "name": "Mine now" });
    let path = module.path(Uuid::now_v7(), &tail(&project));
    let foreign = module.call("PUT", &path).json(body.clone()).send().await;
    let unknown = module.ask("PUT", &format!("/projects/{}", Uuid::now_v7()), Some(body)).await;
    assert_eq!((foreign.status, foreign.code()), (404, "NOT_FOUND"));
    assert_eq!((unknown.status, &unknown.body), (404, &foreign.body));
    assert_eq!(module.contents().await, before);
    let list = module.call("GET", &module.path(Uuid::now_v7(), "/projects")).send().await;
    assert_eq!(list.data()["total"], 0);
}

#[tokio::test]
async fn a_wrong_body_is_told_before_an_unknown_project() {
    let module = start().await;
    let reply = module.ask("PUT", &format!("/projects/{}", Uuid::now_v7()), Some(json!({}))).await;
    assert_eq!(reply.wrong_fields(), ["code required", "name required"]);
}

#[tokio::test]
async fn pages_put_together_are_the_whole_list_in_the_order_of_codes() {
    let module = start().await;
    let mut codes = ["B", "A_1", "A-1", "A1", "_", "-", "0", "AA", "A"].map(ToOwned::to_owned).to_vec();
    // More than the largest page.
    codes.extend((1..=93).map(|number| format!("P{number}")));
    for code in &codes {
        create(&module, code).await;
    }
    codes.sort();
    for size in [4, 51, 100] {
        let mut seen = Vec::new();
        for page in 1..=102_u32.div_ceil(size) + 1 {
            let reply = module.ask("GET", &format!("/projects?page={page}&pageSize={size}"), None).await;
            assert_eq!((&reply.data()["total"], &reply.data()["page"]), (&json!(102), &json!(page)));
            assert_eq!(reply.data()["totalPages"], 102_u32.div_ceil(size));
            let items = reply.data()["items"].as_array().expect("a list").clone();
            seen.extend(items.into_iter().map(|item| item["code"].as_str().expect("a code").to_owned()));
        }
        assert_eq!(seen, codes, "pageSize {size}");
    }
}

#[tokio::test]
async fn a_page_out_of_range_is_refused_and_never_clamped() {
    let module = start().await;
    for (query, expected) in [
        ("page=0", vec!["page range"]),
        ("page=x", vec!["page range"]),
        ("page=4294967296", vec!["page range"]),
        ("pageSize=0", vec!["pageSize range"]),
        ("pageSize=101", vec!["pageSize range"]),
        ("page=-1&pageSize=1.5", vec!["page range", "pageSize range"]),
        ("page=%00", vec!["page range"]),
        ("page=", vec!["page range"]),
    ] {
        let reply = module.ask("GET", &format!("/projects?{query}"), None).await;
        assert_eq!(reply.wrong_fields(), expected, "{query}");
    }
    let last = module.ask("GET", "/projects?page=4294967295&pageSize=100", None).await;
    let empty =
        json!({ "items": [], "total": 0, "page": 4_294_967_295_u32, "pageSize": 100, "totalPages": 0 });
    assert_eq!((last.status, last.data()), (200, &empty));
}
