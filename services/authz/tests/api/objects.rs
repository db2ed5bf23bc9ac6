//! Lists: complete, paged, limited to the bearer and one company, and the same by memory and by SQL.

use authz::engine::{DEFAULT_BUDGET, Engine, Listing, Window};
use authz::facts::{Question, SubjectRef};
use serde_json::{Value, json};

use crate::app::{App, engine};
use crate::can::with_crm;

const OBJECTS: &str = "/internal/authz/effective-access/objects";

async fn ids(app: &App, subject: &str, query: &str) -> Vec<String> {
    let reply = app.ask("GET", &format!("{OBJECTS}?{query}"), subject, None).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let items = reply.data()["items"].as_array().expect("a list").clone();
    items.into_iter().map(|item| item["id"].as_str().expect("an id").to_owned()).collect()
}

#[tokio::test]
async fn a_list_is_complete_and_only_of_the_company() {
    let (app, rows, company) = with_crm(&["alice", "boss"]).await;
    let other = rows.company().await;
    rows.defaults(other, "crm").await;
    for (id, of) in [("1", company), ("2", company), ("3", company), ("4", other)] {
        rows.tuple(&format!("crm_deal:{id}#company_module@company_module:{of}/crm"), "grant").await;
    }
    for tuple in [
        "crm_deal:2#viewer@user:alice",
        "crm_deal:3#owner@group:g#member",
        "crm_deal:4#viewer@user:alice",
        "crm_deal:5#viewer@user:alice",
    ] {
        rows.tuple(tuple, "grant").await;
    }
    rows.tuple("group:g#member@user:alice", "org").await;
    rows.tuple(&format!("company_module:{company}/crm#admin@user:boss"), "grant").await;
    let query = format!("objectType=crm_deal&relation=viewer&companyId={company}");
    assert_eq!(ids(&app, "alice", &query).await, ["2", "3"], "not of another company, not without an anchor");
    assert_eq!(ids(&app, "boss", &query).await, ["1", "2", "3"]);
    let owned = format!("objectType=crm_deal&relation=owner&companyId={company}");
    assert_eq!(ids(&app, "alice", &owned).await, ["3"]);
    let question = Question { subject: SubjectRef::user("alice"), places: Vec::new(), asks: Vec::new() };
    let listing = Listing {
        object_type: "crm_deal".to_owned(),
        relation: "viewer".to_owned(),
        company,
        module: "crm".to_owned(),
        window: Window::ALL,
    };
    let by_sql = engine(&app.database, DEFAULT_BUDGET);
    let listed = Engine::list(&by_sql, &question, &listing).await.expect("a list");
    assert_eq!((listed.ids, listed.total), (vec!["2".to_owned(), "3".to_owned()], 2), "by SQL as by memory");
    let listing = Listing { window: Window { skip: 1, take: 5 }, ..listing };
    let listed = Engine::list(&by_sql, &question, &listing).await.expect("a page");
    assert_eq!((listed.ids, listed.total), (vec!["3".to_owned()], 2));
    rows.run("UPDATE registry.modules SET enabled = false; UPDATE registry.model_revision SET revision = revision + 1").await;
    assert_eq!(ids(&app, "boss", &query).await, Vec::<String>::new(), "empty where `can` denies");
    assert_eq!(app.audit().await, Vec::<Value>::new(), "a list is not a decision");
}

#[tokio::test]
async fn a_list_comes_in_pages() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    for id in 100..107 {
        rows.tuple(&format!("crm_deal:{id}#company_module@company_module:{company}/crm"), "grant").await;
        rows.tuple(&format!("crm_deal:{id}#viewer@user:alice"), "grant").await;
    }
    let path = format!("{OBJECTS}?objectType=crm_deal&relation=viewer&companyId={company}&pageSize=3");
    let page =
        async |page: u32| app.ask("GET", &format!("{path}&page={page}"), "alice", None).await.data().clone();
    let item = |id: &str| json!({ "type": "crm_deal", "id": id });
    let last = page(3).await;
    assert_eq!(
        last,
        json!({ "items": [item("106")], "total": 7, "page": 3, "pageSize": 3, "totalPages": 3 })
    );
    assert_eq!(page(1).await["items"], json!([item("100"), item("101"), item("102")]));
    assert_eq!(page(4).await["items"], json!([]));
}

#[tokio::test]
async fn what_cannot_be_listed_is_refused() {
    let (app, _, company) = with_crm(&["alice"]).await;
    for (query, status, fields) in [
        (String::new(), 400, vec!["objectType", "relation", "companyId"]),
        ("objectType=crm_deal&relation=viewer&companyId=7&page=0".to_owned(), 400, vec!["companyId", "page"]),
        (format!("objectType=nothing&relation=viewer&companyId={company}"), 422, vec!["objectType"]),
        (format!("objectType=company&relation=member&companyId={company}"), 422, vec!["objectType"]),
        (format!("objectType=crm_deal&relation=nothing&companyId={company}"), 422, vec!["relation"]),
        (format!("objectType=crm_deal&relation=viewer&companyId={company}&kcSub=bob"), 400, vec!["kcSub"]),
    ] {
        let reply = app.ask("GET", &format!("{OBJECTS}?{query}"), "alice", None).await;
        assert_eq!(reply.status, status, "{query}: {}", reply.text);
        let named: Vec<_> = reply.body["error"]["details"]["fields"]
            .as_array()
            .expect("fields")
            .iter()
            .filter_map(|field| field["path"].as_str())
            .collect();
        assert_eq!(named, fields, "{query}");
    }
}
