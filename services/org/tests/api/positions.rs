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

#[tokio::test]
async fn every_page_of_the_list_names_the_total_of_its_company_alone() {
    let org = Org::start().await;
    let (company, other) = (org.company("ACME").await, org.company("OTHER").await);
    let (mut positions, mut members) = (Vec::new(), Vec::new());
    for code in ["A", "B", "C", "D", "E"] {
        positions.push(org.position(&company, code).await);
        org.position(&other, code).await;
    }
    for code in ["mia", "bob"] {
        members.push(org.member(&company, code).await);
    }
    // Position B has a previous and a current holder; each term is a row.
    for (position, member) in [(1, 0), (1, 1), (4, 0)] {
        let path = format!("/internal/org/admin/positions/{}/assignments", positions[position]);
        made(&org.post(&path, json!({ "memberId": members[member] })).await);
    }
    let holders = [None, Some("bob"), None, None, Some("mia")];
    for (page, codes) in [(1, vec!["A", "B"]), (2, vec!["C", "D"]), (3, vec!["E"]), (4, vec![])] {
        let path = format!("/internal/org/admin/companies/{company}/positions?page={page}&pageSize=2");
        let list = org.get(&path).await;
        assert_eq!(list.data()["total"], 5, "page {page}");
        let items = list.data()["items"].as_array().expect("a list").clone();
        let shown: Vec<_> = items.iter().map(|item| item["code"].as_str().expect("a code")).collect();
        assert_eq!(shown, codes, "page {page}");
        let held: Vec<_> = items.iter().map(|item| item["holderDisplayName"].as_str()).collect();
        let from = holders.len().min((page - 1) * 2);
        assert_eq!(held, holders[from..from + codes.len()], "page {page}");
    }
}
