//! Creating, listing and changing members.

use serde_json::{Value, json};

use crate::support::{ADMIN, Org, fields, made};
use crate::units::futures;

const MEMBERS: &str = "/internal/org/admin/members";

#[tokio::test]
async fn a_new_member_is_active_and_unlinked() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let body =
        json!({ "companyId": company, "code": "m-1", "displayName": "Mia", "email": "mia@example.org" });
    let reply = org.post(MEMBERS, body).await;
    let id = made(&reply);
    assert_eq!(
        reply.data(),
        &json!({
            "id": id, "companyId": company, "code": "m-1", "displayName": "Mia", "email": "mia@example.org",
            "userId": null, "isActive": true
        })
    );
    assert_eq!(org.audit().await.last(), Some(&format!("{ADMIN} member.created member:{id}")));
    assert!(org.tuples("org").await.is_empty());
}

#[tokio::test]
async fn fields_of_a_member_have_limits() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let longest = format!("{}@{}.{}.{}", "a".repeat(64), "b".repeat(63), "c".repeat(63), "d".repeat(61));
    let body = json!({ "companyId": company, "code": "c".repeat(64), "displayName": "d".repeat(200), "email": longest });
    assert_eq!(org.post(MEMBERS, body).await.status, 201);
    let past = json!({
        "companyId": "x", "code": "c".repeat(65), "displayName": "d".repeat(201), "email": format!("{longest}d")
    });
    assert_eq!(
        fields(&org.post(MEMBERS, past).await),
        ["companyId uuid", "code length", "displayName length", "email length"]
    );
    let padded = json!({ "companyId": company, "code": "m-2 ", "displayName": "Mia" });
    assert_eq!(fields(&org.post(MEMBERS, padded).await), ["code trimmed"]);
    let bad = json!({ "companyId": company, "code": "\t", "displayName": "a\u{7}b", "email": "nobody" });
    assert_eq!(fields(&org.post(MEMBERS, bad).await), ["code blank", "displayName control", "email email"]);
}

#[tokio::test]
async fn a_member_needs_a_company_and_a_code_of_its_own() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let unit = json!({ "typeKey": "department", "parentId": company, "code": "D", "name": "D" });
    let unit = made(&org.post("/internal/org/admin/units", unit).await);
    for nowhere in [uuid::Uuid::now_v7().to_string(), unit] {
        let reply = org.post(MEMBERS, json!({ "companyId": nowhere, "code": "a", "displayName": "A" })).await;
        assert_eq!((reply.status, reply.code()), (422, "VALIDATION_FAILED"));
        assert_eq!(fields(&reply), ["companyId unknown"]);
    }
    org.member(&company, "Code").await;
    let again = json!({ "companyId": company, "code": "cODE", "displayName": "A" });
    let taken = org.post(MEMBERS, again).await;
    assert_eq!((taken.code(), &taken.body["error"]["details"]), ("CONFLICT", &json!({ "field": "code" })));
    let other = org.company("OTHER").await;
    org.member(&other, "Code").await;
}

#[tokio::test]
async fn of_parallel_members_with_one_code_one_wins() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let body = json!({ "companyId": company, "code": "a", "displayName": "A" });
    let replies = futures((0..8).map(|_| org.post(MEMBERS, body.clone())).collect()).await;
    assert_eq!(replies.iter().filter(|reply| reply.status == 201).count(), 1);
    assert_eq!(replies.iter().filter(|reply| reply.code() == "CONFLICT").count(), 7);
    assert_eq!(org.audit().await.len(), 2);
}

#[tokio::test]
async fn pages_are_ordered_by_name_and_count_everything() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    for code in ["c", "a", "b"] {
        org.member(&company, code).await;
    }
    let page = |query: String| {
        let org = &org;
        async move { org.get(&format!("{MEMBERS}?{query}")).await }
    };
    let names = |data: &Value| -> Vec<String> {
        let items = data["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["displayName"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let first = page(format!("companyId={company}&page=1&pageSize=2")).await;
    assert_eq!(names(first.data()), ["a", "b"]);
    let past = page(format!("companyId={company}&page=9&pageSize=2")).await;
    assert_eq!(past.data(), &json!({ "items": [], "total": 3, "page": 9, "pageSize": 2, "totalPages": 2 }));
    let unknown = page(format!("companyId={}", uuid::Uuid::now_v7())).await;
    assert_eq!(
        unknown.data(),
        &json!({ "items": [], "total": 0, "page": 1, "pageSize": 25, "totalPages": 0 })
    );
    for (query, field) in [
        (String::new(), "companyId required"),
        ("companyId=x".to_owned(), "companyId uuid"),
        (format!("companyId={company}&page=0"), "page range"),
        (format!("companyId={company}&pageSize=101"), "pageSize range"),
    ] {
        let reply = page(query).await;
        assert_eq!((reply.status, fields(&reply)), (400, vec![field.to_owned()]));
    }
    assert_eq!(page(format!("companyId={company}&pageSize=100")).await.status, 200);
}

#[tokio::test]
async fn a_change_touches_what_it_names_and_no_change_is_not_audited() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let path = format!("{MEMBERS}/{}", org.member(&company, "m").await);
    let before = org.audit().await.len();
    let reply = org.put(&path, json!({ "displayName": "Mia", "email": "mia@example.org" })).await;
    assert_eq!(reply.data()["displayName"], "Mia");
    assert_eq!(org.audit().await.len(), before + 1);
    for unchanged in
        [json!({}), json!({ "displayName": "Mia", "isActive": true }), json!({ "isActive": null })]
    {
        assert_eq!(org.put(&path, unchanged).await.status, 200);
    }
    assert_eq!(org.audit().await.len(), before + 1);
    assert_eq!(org.put(&path, json!({ "email": null })).await.data()["email"], Value::Null);
    let payload: Value =
        sqlx::query_scalar("SELECT payload FROM audit.org__events ORDER BY seq DESC LIMIT 1")
            .fetch_one(&org.owner)
            .await
            .expect("a row");
    assert_eq!(payload["emailDigest"]["to"], Value::Null);
    assert_eq!(
        payload["emailDigest"]["from"].as_str().map(str::len),
        Some(64),
        "no address is in audit rows"
    );
    let bad = org.put(&path, json!({ "displayName": "", "email": "x", "isActive": "yes" })).await;
    assert_eq!(fields(&bad), ["displayName length", "email email", "isActive type"]);
    let nobody = format!("{MEMBERS}/{}", uuid::Uuid::now_v7());
    assert_eq!(org.put(&nobody, json!({})).await.code(), "NOT_FOUND");
}

#[tokio::test]
async fn an_address_is_unique_among_linked_members() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let (old, new) = (org.member(&company, "old").await, org.member(&company, "new").await);
    for member in [&old, &new] {
        let reply = org.put(&format!("{MEMBERS}/{member}"), json!({ "email": "mia@example.org" })).await;
        assert_eq!(reply.status, 200, "unlinked members may share an address");
    }
    assert_eq!(org.link(&new, "mia").await.status, 200);
    let clash = org.link(&old, "old-mia").await;
    assert_eq!((clash.status, clash.code()), (409, "CONFLICT"));
    org.put(&format!("{MEMBERS}/{old}"), json!({ "email": "other@example.org" })).await;
    assert_eq!(org.link(&old, "old-mia").await.status, 200);
    let clash = org.put(&format!("{MEMBERS}/{old}"), json!({ "email": "MIA@example.org" })).await;
    assert_eq!((clash.status, clash.code()), (409, "CONFLICT"));
}
