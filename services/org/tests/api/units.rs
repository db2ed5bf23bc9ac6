//! Companies and units.

use serde_json::{Value, json};

use crate::support::{ADMIN, Org, fields, made};

const UNITS: &str = "/internal/org/admin/units";

async fn unit(org: &Org, kind: &str, parent: &str, code: &str) -> String {
    made(&org.post(UNITS, json!({ "typeKey": kind, "parentId": parent, "code": code, "name": code })).await)
}

#[tokio::test]
async fn a_company_is_a_root_with_an_upper_case_code_and_one_audit_row() {
    let org = Org::start().await;
    let reply = org
        .post(UNITS, json!({ "typeKey": "company", "parentId": null, "code": "acme-1", "name": "Acme" }))
        .await;
    let id = made(&reply);
    let expected = json!({
        "id": id, "typeKey": "company", "parentId": null, "code": "ACME-1", "name": "Acme", "isActive": true
    });
    assert_eq!(reply.data(), &expected);
    assert_eq!(org.get(&format!("{UNITS}/{id}")).await.data(), &expected);
    assert_eq!(org.audit().await, [format!("{ADMIN} unit.created unit:{id}")]);
    let company: uuid::Uuid = sqlx::query_scalar("SELECT company_id FROM audit.org__events")
        .fetch_one(&org.owner)
        .await
        .expect("one row");
    assert_eq!(company.to_string(), id);
}

#[tokio::test]
async fn the_correlation_id_of_the_request_is_in_the_audit_row() {
    let org = Org::start().await;
    let body = json!({ "typeKey": "company", "code": "ACME", "name": "Acme" });
    let call = org.api.post(UNITS).bearer(&org.token).header("x-correlation-id", "order-66").json(body);
    let reply = org.checked("POST", UNITS, call).await;
    assert_eq!((reply.status, reply.header("x-correlation-id")), (201, "order-66"));
    let named: String = sqlx::query_scalar("SELECT correlation_id FROM audit.org__events")
        .fetch_one(&org.owner)
        .await
        .expect("one row");
    assert_eq!(named, "order-66");
}

#[tokio::test]
async fn fields_have_limits_and_every_wrong_one_is_named() {
    let org = Org::start().await;
    let longest = json!({ "typeKey": "company", "code": "c".repeat(32), "name": "ä".repeat(200) });
    assert_eq!(org.post(UNITS, longest).await.status, 201);
    let past = json!({ "typeKey": "t".repeat(65), "code": "c".repeat(33), "name": "n".repeat(201), "parentId": "x" });
    let reply = org.post(UNITS, past).await;
    assert_eq!(fields(&reply), ["typeKey length", "parentId uuid", "code length", "name length"]);
    let reply = org.post(UNITS, json!({ "typeKey": 1, "code": "a b", "name": " " })).await;
    assert_eq!((reply.status, reply.code()), (400, "VALIDATION_ERROR"));
    assert_eq!(fields(&reply), ["typeKey type", "code pattern", "name blank"]);
    assert_eq!(
        fields(&org.post(UNITS, json!({})).await),
        ["typeKey required", "code required", "name required"]
    );
}

#[tokio::test]
async fn the_taxonomy_says_what_stands_below_what() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let parents = [
        ("company", vec![]),
        ("business_unit", vec!["company", "business_unit"]),
        ("department", vec!["company", "business_unit", "department"]),
        ("territory", vec!["company", "business_unit", "territory"]),
        ("team", vec!["business_unit", "department", "territory", "team"]),
    ];
    let business_unit = unit(&org, "business_unit", &company, "BU").await;
    let above = [
        ("company", company.clone()),
        ("business_unit", business_unit.clone()),
        ("department", unit(&org, "department", &company, "D").await),
        ("territory", unit(&org, "territory", &company, "T").await),
        ("team", unit(&org, "team", &business_unit, "TEAM").await),
    ];
    for (kind, allowed) in parents {
        for (number, (parent_kind, parent)) in above.iter().enumerate() {
            let code = format!("{kind}{number}");
            let reply = org
                .post(UNITS, json!({ "typeKey": kind, "parentId": parent, "code": code, "name": "n" }))
                .await;
            let expected = if allowed.contains(parent_kind) { 201 } else { 422 };
            assert_eq!(reply.status, expected, "{kind} below {parent_kind}: {}", reply.text);
        }
    }
}

#[tokio::test]
async fn what_breaks_the_tree_is_422_and_names_the_field() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let nobody = uuid::Uuid::now_v7().to_string();
    for (kind, parent, field) in [
        ("galaxy", json!(company), "typeKey unknown"),
        ("team", Value::Null, "parentId required"),
        ("company", json!(company), "parentId root"),
        ("department", json!(nobody), "parentId unknown"),
    ] {
        let reply =
            org.post(UNITS, json!({ "typeKey": kind, "parentId": parent, "code": "X", "name": "n" })).await;
        assert_eq!((reply.status, reply.code()), (422, "VALIDATION_FAILED"), "{kind} {parent}");
        assert_eq!(fields(&reply), [field]);
    }
    assert_eq!(org.audit().await.len(), 1, "only the company");
}

#[tokio::test]
async fn a_tree_is_at_most_32_levels_deep() {
    let org = Org::start().await;
    let mut parent = org.company("ACME").await;
    for level in 1..=32 {
        parent = unit(&org, "department", &parent, &format!("D{level}")).await;
    }
    let body = json!({ "typeKey": "department", "parentId": parent, "code": "D33", "name": "n" });
    assert_eq!(fields(&org.post(UNITS, body).await), ["parentId depth"]);
}

#[tokio::test]
async fn company_codes_are_unique_everywhere_and_others_in_their_company_whatever_the_case() {
    let org = Org::start().await;
    let (acme, other) = (org.company("ACME").await, org.company("OTHER").await);
    let again = org.post(UNITS, json!({ "typeKey": "company", "code": "acme", "name": "n" })).await;
    assert_eq!((again.status, again.code()), (409, "CONFLICT"));
    unit(&org, "department", &acme, "SALES").await;
    unit(&org, "department", &other, "SALES").await;
    let body = json!({ "typeKey": "business_unit", "parentId": acme, "code": "sales", "name": "n" });
    assert_eq!(org.post(UNITS, body).await.code(), "CONFLICT");
}

#[tokio::test]
async fn of_parallel_creations_with_one_code_one_wins() {
    let org = Org::start().await;
    let body = json!({ "typeKey": "company", "code": "ACME", "name": "Acme" });
    let calls: Vec<_> = (0..8).map(|_| org.post(UNITS, body.clone())).collect();
    let mut statuses: Vec<u16> = futures(calls).await.iter().map(|reply| reply.status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409, 409, 409, 409, 409, 409, 409]);
    assert_eq!(org.audit().await.len(), 1);
}

#[tokio::test]
async fn a_subtree_is_the_unit_and_everything_below_it_by_level_then_code() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let b = unit(&org, "department", &company, "B").await;
    unit(&org, "department", &b, "A1").await;
    let a = unit(&org, "department", &company, "A").await;
    unit(&org, "department", &a, "Z9").await;
    org.company("OTHER").await;
    sqlx::query("UPDATE org.units SET is_active = false WHERE code = 'A1'")
        .execute(&org.owner)
        .await
        .expect("updated");
    let codes = |reply: testkit::Reply| -> Vec<String> {
        let units = reply.data().as_array().cloned().unwrap_or_default();
        units.iter().map(|unit| unit["code"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let whole = org.get(&format!("{UNITS}/{company}/subtree")).await;
    assert_eq!(codes(whole), ["ACME", "A", "B", "A1", "Z9"]);
    assert_eq!(codes(org.get(&format!("{UNITS}/{b}/subtree")).await), ["B", "A1"]);
    let nobody = uuid::Uuid::now_v7();
    assert_eq!(org.get(&format!("{UNITS}/{nobody}/subtree")).await.code(), "NOT_FOUND");
    assert_eq!(org.get(&format!("{UNITS}/{nobody}")).await.code(), "NOT_FOUND");
}

/// Runs calls concurrently.
pub(crate) async fn futures<F: Future>(calls: Vec<F>) -> Vec<F::Output> {
    futures_util::future::join_all(calls).await
}
