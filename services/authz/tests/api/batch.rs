//! `batch-can`: many pairs at one moment.

use serde_json::{Value, json};

use crate::app::{App, evidence};
use crate::can::crm;

const BATCH: &str = "/internal/authz/effective-access/batch-can";

fn item(object: &str, relation: &str) -> Value {
    let (kind, id) = object.split_once(':').expect("type:id");
    json!({ "object": { "type": kind, "id": id }, "relation": relation })
}

#[tokio::test]
async fn each_pair_is_decided_in_the_company_of_its_object() {
    let app = App::start().await;
    let rows = app.rows();
    let (company, foreign) = (rows.company().await, rows.company().await);
    rows.subject("alice").await;
    rows.member(company, "alice").await;
    rows.app("crm", &crm(), &[]).await;
    for company in [company, foreign] {
        rows.defaults(company, "crm").await;
    }
    for tuple in [
        format!("crm_deal:1#company_module@company_module:{company}/crm"),
        format!("crm_deal:2#company_module@company_module:{foreign}/crm"),
        format!("crm_deal:4#company_module@company_module:{company}/crm"),
        format!("crm_deal:4#company_module@company_module:{foreign}/crm"),
    ] {
        rows.tuple(&tuple, "grant").await;
    }
    for deal in 1..=4 {
        rows.tuple(&format!("crm_deal:{deal}#owner@user:alice"), "grant").await;
    }
    let expected = [
        ("crm_deal:1".to_owned(), "viewer", "ALLOWED"),
        ("crm_deal:1".to_owned(), "unheard", "ENGINE_DENIED"),
        ("crm_deal:1".to_owned(), "viewer", "ALLOWED"),
        ("crm_deal:2".to_owned(), "viewer", "ENGINE_DENIED"),
        ("crm_deal:3".to_owned(), "viewer", "ENGINE_DENIED"),
        (format!("company_module:{company}/crm"), "member", "ALLOWED"),
        (format!("company_module:{company}/crm"), "admin", "ENGINE_DENIED"),
        (format!("company_module:{foreign}/crm"), "member", "COMPANY_MEMBERSHIP_REQUIRED"),
        (format!("company_module:{company}/nothing"), "member", "MODULE_DISABLED"),
        ("company_module:nonsense".to_owned(), "member", "ENGINE_DENIED"),
        ("unicorn:1".to_owned(), "rider", "ENGINE_DENIED"),
        (format!("company:{company}"), "member", "ENGINE_DENIED"),
    ];
    let items: Vec<Value> = expected.iter().map(|(object, relation, _)| item(object, relation)).collect();
    let reply = app.ask("POST", BATCH, "alice", Some(json!({ "items": items }))).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let answers = reply.data().as_array().expect("a list");
    assert_eq!(answers.len(), expected.len());
    for ((answer, sent), (object, relation, reason)) in answers.iter().zip(&items).zip(&expected) {
        assert_eq!((&answer["object"], &answer["relation"]), (&sent["object"], &sent["relation"]));
        assert_eq!(answer["decision"]["reason"], *reason, "{object}#{relation}: {answer}");
        assert_eq!(answer["decision"]["allowed"], *reason == "ALLOWED");
    }
    for index in [3, 4, 9, 10, 11] {
        assert_eq!(
            evidence(&answers[index]["decision"]["evidence"], "anchor"),
            "missing",
            "{}",
            answers[index]
        );
    }
}

/// An object with anchors in two companies belongs to neither, even for a member of both.
#[tokio::test]
async fn an_object_with_two_anchors_is_denied_to_members_of_both() {
    let app = App::start().await;
    let rows = app.rows();
    rows.subject("alice").await;
    rows.app("crm", &crm(), &[]).await;
    rows.tuple("crm_deal:1#owner@user:alice", "grant").await;
    for _ in 0..2 {
        let company = rows.company().await;
        rows.member(company, "alice").await;
        rows.tuple(&format!("crm_deal:1#company_module@company_module:{company}/crm"), "grant").await;
    }
    let body = json!({ "items": [item("crm_deal:1", "owner")] });
    let reply = app.ask("POST", BATCH, "alice", Some(body)).await;
    let decision = &reply.data()[0]["decision"];
    assert_eq!(decision["reason"], "ENGINE_DENIED");
    assert_eq!(evidence(&decision["evidence"], "anchor"), "missing");
}

/// A batch, its AuthZEN equivalent and an explanation do not reveal whether an object belongs to another company or to
/// none.
#[tokio::test]
async fn an_object_of_another_company_looks_like_none() {
    let app = App::start().await;
    let rows = app.rows();
    let (company, foreign, left, closed) =
        (rows.company().await, rows.company().await, rows.company().await, rows.company().await);
    rows.subject("alice").await;
    rows.app("crm", &crm(), &[]).await;
    for (id, of) in [("own", company), ("foreign", foreign), ("left", left), ("closed", closed)] {
        rows.tuple(&format!("crm_deal:{id}#company_module@company_module:{of}/crm"), "grant").await;
        rows.tuple(&format!("crm_deal:{id}#owner@user:alice"), "grant").await;
    }
    for of in [company, left, closed] {
        rows.member(of, "alice").await;
    }
    rows.tuple(&format!("crm_deal:both#company_module@company_module:{company}/crm"), "grant").await;
    rows.tuple(&format!("crm_deal:both#company_module@company_module:{foreign}/crm"), "grant").await;
    rows.run(format!("UPDATE org.members SET is_active = false WHERE company_id = '{left}'")).await;
    rows.run(format!("UPDATE org.units SET is_active = false WHERE id = '{closed}'")).await;
    let ids = ["nobodys", "own", "foreign", "left", "closed"];
    let anonymous = |value: &Value, id: &str| value.to_string().replace(id, "ID");
    let items: Vec<Value> = ids.iter().map(|id| item(&format!("crm_deal:{id}"), "viewer")).collect();
    let reply = app.ask("POST", BATCH, "alice", Some(json!({ "items": items }))).await;
    let batch: Vec<String> =
        (0..ids.len()).map(|at| anonymous(&reply.data()[at]["decision"], ids[at])).collect();
    let part = |id: &&str| json!({ "resource": { "type": "crm_deal", "id": id } });
    let body = json!({ "subject": { "type": "user", "id": "alice" }, "action": { "name": "viewer" },
        "evaluations": ids.iter().map(part).collect::<Vec<_>>() });
    let reply = app.ask("POST", "/internal/authz/access/v1/evaluations", "alice", Some(body)).await;
    let standard: Vec<String> =
        (0..ids.len()).map(|at| anonymous(&reply.body["evaluations"][at], ids[at])).collect();
    for told in [batch, standard] {
        assert_ne!(told[1], told[0], "the subject's own object is visible");
        for (at, id) in ids.iter().enumerate().skip(2) {
            assert_eq!(told[at], told[0], "{id}");
        }
    }
    let explain = async |id: &str| {
        let path = format!(
            "/internal/authz/effective-access/explain?companyId={company}&objectType=crm_deal&objectId={id}&relation=viewer"
        );
        let reply = app.ask("GET", &path, "alice", None).await;
        let evidence = reply.data()["decision"]["evidence"].as_array().cloned().unwrap_or_default();
        let told: Vec<Value> = evidence.into_iter().filter(|item| item["key"] != "revision").collect();
        anonymous(&json!(told), id)
    };
    let nobodys = explain("nobodys").await;
    for id in ["foreign", "both"] {
        assert_eq!(explain(id).await, nobodys, "{id}");
    }
}

/// The audit row stays small whatever is denied: a limited number of items, each cut to its first bytes.
#[tokio::test]
async fn a_denied_batch_of_long_names_lists_as_many_and_writes_little() {
    let app = App::start().await;
    let items: Vec<Value> =
        (0..100).map(|index| item(&format!("{}:{index:0>200}", "t".repeat(64)), &"ü".repeat(100))).collect();
    let reply = app.ask("POST", BATCH, "root", Some(json!({ "items": items }))).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let payload = app.audit().await.pop().expect("a row")["payload"].clone();
    assert_eq!(payload["items"].as_array().map(Vec::len), Some(50));
    let expected = (format!("{}:{}…", "t".repeat(64), "0".repeat(63)), format!("{}…", "ü".repeat(64)));
    assert_eq!(
        (&payload["items"][0]["object"], &payload["items"][0]["relation"]),
        (&json!(expected.0), &json!(expected.1))
    );
    assert!(payload.to_string().len() < 20_000, "{} bytes", payload.to_string().len());
}

/// A text of the maximum length is kept whole; one byte more is cut.
#[tokio::test]
async fn a_denied_item_is_told_up_to_the_limit_of_a_text() {
    let app = App::start().await;
    let (whole, longer) = (format!("t:{}", "i".repeat(126)), format!("t:{}", "i".repeat(127)));
    let items = [item(&whole, "r"), item(&longer, "r")];
    assert_eq!(app.ask("POST", BATCH, "root", Some(json!({ "items": items }))).await.status, 200);
    let row = app.audit().await.pop().expect("a row");
    let told = |index: usize| row["payload"]["items"][index]["object"].clone();
    assert_eq!((told(0), told(1)), (json!(whole), json!(format!("{whole}…"))));
}

#[tokio::test]
async fn one_audit_row_counts_the_denied_and_lists_the_first_fifty() {
    let app = App::start().await;
    for (count, listed, truncated) in [(50, 50, false), (51, 50, true), (100, 50, true)] {
        let items: Vec<Value> = (0..count).map(|index| item(&format!("unicorn:{index}"), "rider")).collect();
        let reply = app.ask("POST", BATCH, "root", Some(json!({ "items": items }))).await;
        assert_eq!((reply.status, reply.data().as_array().map(Vec::len)), (200, Some(count)));
        let row = app.audit().await.pop().expect("a row");
        assert_eq!((&row["action"], &row["actor"]), (&json!("access.batch_denied"), &json!("root")));
        let told = row["payload"]["items"].as_array().expect("a list");
        assert_eq!(told.len(), listed);
        assert_eq!(row["payload"]["denied"], count);
        assert_eq!(row["payload"]["reasons"], json!({ "ENGINE_DENIED": count }));
        assert_eq!(row["payload"]["truncated"], truncated);
        for (index, one) in told.iter().enumerate() {
            let object = format!("unicorn:{index}");
            assert_eq!(*one, json!({ "object": object, "relation": "rider", "reason": "ENGINE_DENIED" }));
        }
    }
    assert_eq!(app.audit().await.len(), 3);
    let metrics = app.api.get("/metrics").send().await.text;
    let line = "platform_authz_decisions_total{reason=\"ENGINE_DENIED\",service=\"authz\"} 201";
    assert!(metrics.contains(line), "one for each item\n{metrics}");
}

#[tokio::test]
async fn limits_of_the_shape() {
    let app = App::start().await;
    let empty = app.ask("POST", BATCH, "root", Some(json!({ "items": [] }))).await;
    assert_eq!((empty.status, empty.data()), (200, &json!([])));
    let many: Vec<Value> = (0..101).map(|_| item("a:b", "c")).collect();
    for (body, path) in [
        (json!({ "items": many }), "items"),
        (json!({}), "items"),
        (json!({ "items": {} }), "items"),
        (json!({ "items": [{ "relation": "r" }] }), "items[0].object"),
        (json!({ "items": [{ "object": { "type": "t", "id": "i" } }] }), "items[0].relation"),
        (json!({ "items": [{ "object": { "type": "t", "id": "i" }, "relation": "" }] }), "items[0].relation"),
        (json!({ "items": [7] }), "items[0]"),
    ] {
        let reply = app.ask("POST", BATCH, "root", Some(body)).await;
        assert_eq!((reply.status, reply.code()), (400, "VALIDATION_ERROR"), "{path}");
        assert_eq!(reply.body["error"]["details"]["fields"][0]["path"], path, "{}", reply.text);
    }
    assert!(app.audit().await.is_empty());
}

#[tokio::test]
async fn what_cannot_be_decided_is_503_for_the_whole_batch() {
    let app = App::start().await;
    app.rows().look(301).await;
    let body = json!({ "items": [item("unicorn:1", "rider"), item("unicorn:2", "rider")] });
    let reply = app.ask("POST", BATCH, "root", Some(body)).await;
    assert_eq!((reply.status, reply.code()), (503, "AUTHORIZATION_UNAVAILABLE"));
    assert_eq!(reply.body["error"]["details"]["dependency"], "idp");
    assert!(app.audit().await.is_empty(), "no denial");
    let metrics = app.api.get("/metrics").send().await.text;
    assert!(metrics.contains("reason=\"DEPENDENCY_UNAVAILABLE\",service=\"authz\"} 2"), "{metrics}");
}
