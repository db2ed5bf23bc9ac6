//! Positions.

use serde_json::json;

use crate::support::{ADMIN, Org, fields, made};

#[tokio::test]
async fn a_position_stands_in_a_unit_of_its_company() {
    let org = Org::start().await;
    let (acme, other) = (org.company("ACME").await, org.company("OTHER").await);
    let path = format!("/internal/org/admin/companies/{acme}/positions");
    let reply = org.post(&path, json!({ "code": "p", "title": "Boss", "orgUnitId": acme })).await;
    let id = made(&reply);
    assert_eq!(
        reply.data(),
        &json!({ "id": id, "companyId": acme, "code": "p", "title": "Boss", "orgUnitId": acme })
    );
    assert_eq!(org.audit().await.last(), Some(&format!("{ADMIN} position.created position:{id}")));
    for (unit, code, field) in [(&other, "q", "orgUnitId unknown"), (&acme, "P", "code unique")] {
        let reply = org.post(&path, json!({ "code": code, "title": "T", "orgUnitId": unit })).await;
        assert_eq!(
            (reply.status, reply.code(), fields(&reply)),
            (422, "VALIDATION_FAILED", vec![field.to_owned()])
        );
    }
    let nowhere = format!("/internal/org/admin/companies/{}/positions", uuid::Uuid::now_v7());
    let reply = org.post(&nowhere, json!({ "code": "p", "title": "T", "orgUnitId": acme })).await;
    assert_eq!((reply.status, fields(&reply)), (422, vec!["companyId unknown".to_owned()]));
    let longest = json!({ "code": "c".repeat(64), "title": "t".repeat(200), "orgUnitId": acme });
    assert_eq!(org.post(&path, longest).await.status, 201);
    let past = json!({ "code": "c".repeat(65), "title": "t".repeat(201), "orgUnitId": "x" });
    assert_eq!(fields(&org.post(&path, past).await), ["code length", "title length", "orgUnitId uuid"]);
}

#[tokio::test]
async fn the_list_shows_who_holds_a_position_by_code() {
    let org = Org::start().await;
    let company = org.company("ACME").await;
    let (b, a) = (org.position(&company, "B").await, org.position(&company, "A").await);
    let member = org.member(&company, "Mia").await;
    let reply = org
        .post(&format!("/internal/org/admin/positions/{b}/assignments"), json!({ "memberId": member }))
        .await;
    let assignment = made(&reply);
    let path = format!("/internal/org/admin/companies/{company}/positions");
    let list = org.get(&path).await;
    let vacant = json!({
        "id": a, "companyId": company, "code": "A", "title": "A", "orgUnitId": company,
        "assignmentId": null, "memberId": null, "holderDisplayName": null
    });
    let held = json!({
        "id": b, "companyId": company, "code": "B", "title": "B", "orgUnitId": company,
        "assignmentId": assignment, "memberId": member, "holderDisplayName": "Mia"
    });
    assert_eq!(list.data()["items"], json!([vacant, held]));
    assert_eq!(org.get(&format!("{path}?page=2&pageSize=2")).await.data()["total"], 2);
    let unknown = format!("/internal/org/admin/companies/{}/positions", uuid::Uuid::now_v7());
    assert_eq!(org.get(&unknown).await.data()["total"], 0);
    assert_eq!(fields(&org.get(&format!("{path}?pageSize=0")).await), ["pageSize range"]);
}
