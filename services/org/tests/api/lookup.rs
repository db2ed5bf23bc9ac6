//! Look-ups by id, and assignables, for modules.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Org, fields};

struct Company {
    id: String,
    ann: String,
    bob: String,
    position: String,
    group: String,
}

/// Ann is linked, holds the position and is in the group with Bob.
async fn company(org: &Org, code: &str) -> Company {
    let id = org.company(code).await;
    let (ann, bob) = (org.member(&id, "ann").await, org.member(&id, "bob").await);
    org.link(&ann, &format!("ann-{code}")).await;
    let (position, group) = (org.position(&id, "POS").await, org.group(&id, "GRP").await);
    org.post(&format!("/internal/org/admin/positions/{position}/assignments"), json!({ "memberId": ann }))
        .await;
    for member in [&ann, &bob] {
        let path = format!("/internal/org/admin/groups/{group}/members");
        org.post(&path, json!({ "memberId": member })).await;
    }
    Company { id, ann, bob, position, group }
}

async fn lookup(org: &Org, company: &str, body: Value) -> Value {
    let reply = org.post(&format!("/internal/org/companies/{company}/lookup"), body).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.data().clone()
}

#[tokio::test]
async fn a_lookup_tells_what_the_company_has_and_leaves_the_rest_out() {
    let org = Org::start().await;
    let (acme, other) = (company(&org, "ACME").await, company(&org, "OTHER").await);
    let wanted = json!({
        "memberIds": [acme.bob, acme.ann, other.ann, Uuid::now_v7()],
        "positionIds": [acme.position, other.position], "groupIds": [acme.group, other.group],
        "withLogins": true,
    });
    let expected = json!({
        "members": [
            { "id": acme.ann, "displayName": "ann", "email": null, "isActive": true, "kcSub": "ann-ACME" },
            { "id": acme.bob, "displayName": "bob", "email": null, "isActive": true, "kcSub": null },
        ],
        "positions": [
            { "id": acme.position, "title": "POS", "holderMemberId": acme.ann, "holderDisplayName": "ann",
                "logins": ["ann-ACME"] }
        ],
        "groups": [{ "id": acme.group, "title": "GRP", "isActive": true, "memberCount": 2, "logins": ["ann-ACME"] }],
    });
    assert_eq!(lookup(&org, &acme.id, wanted.clone()).await, expected);
    let unasked =
        lookup(&org, &acme.id, json!({ "positionIds": [acme.position], "groupIds": [acme.group] })).await;
    assert_eq!(
        (&unasked["positions"][0]["logins"], &unasked["groups"][0]["logins"]),
        (&json!([]), &json!([]))
    );
    let nothing = json!({ "members": [], "positions": [], "groups": [] });
    assert_eq!(lookup(&org, &Uuid::now_v7().to_string(), wanted).await, nothing);
    assert_eq!(lookup(&org, &acme.id, json!({ "memberIds": null })).await, nothing);
}

#[tokio::test]
async fn an_inactive_member_is_told_as_such_and_neither_holds_nor_counts() {
    let org = Org::start().await;
    let acme = company(&org, "ACME").await;
    org.put(&format!("/internal/org/admin/members/{}", acme.ann), json!({ "isActive": false })).await;
    let wanted = json!({ "memberIds": [acme.ann], "positionIds": [acme.position], "groupIds": [acme.group] });
    let found = lookup(&org, &acme.id, wanted).await;
    assert_eq!(found["members"][0]["isActive"], false);
    assert_eq!(found["positions"][0]["holderMemberId"], Value::Null);
    assert_eq!(found["groups"][0]["memberCount"], 1);
    let path = format!("/internal/org/companies/{}/assignables", acme.id);
    let positions = org.get(&format!("{path}/positions")).await;
    let vacant = json!([{ "positionId": acme.position, "title": "POS", "holderMemberId": null,
        "holderDisplayName": null }]);
    assert_eq!(positions.data(), &vacant);
}

#[tokio::test]
async fn whoever_has_no_login_holds_and_counts_and_is_told_as_such() {
    let org = Org::start().await;
    let acme = company(&org, "ACME").await;
    let wanted = json!({ "positionIds": [acme.position], "groupIds": [acme.group], "withLogins": true });
    let logins = async || {
        let found = lookup(&org, &acme.id, wanted.clone()).await;
        assert_eq!(found["positions"][0]["holderMemberId"], acme.ann);
        assert_eq!(found["groups"][0]["memberCount"], 2);
        (found["positions"][0]["logins"].clone(), found["groups"][0]["logins"].clone())
    };
    assert_eq!(logins().await, (json!(["ann-ACME"]), json!(["ann-ACME"])));
    let unlink = format!("UPDATE org.members SET user_id = NULL WHERE id = '{}'", acme.ann);
    sqlx::query(sqlx::AssertSqlSafe(unlink)).execute(&org.owner).await.expect("unlinked");
    assert_eq!(logins().await, (json!([]), json!([])));
    org.link(&acme.bob, "bob-ACME").await;
    assert_eq!(logins().await, (json!([]), json!(["bob-ACME"])), "one of the group has a login");
}

#[tokio::test]
async fn assignables_are_ordered_by_title_and_groups_are_active_ones() {
    let org = Org::start().await;
    let acme = company(&org, "ACME").await;
    let (first, last) = (org.position(&acme.id, "A").await, org.position(&acme.id, "Z").await);
    let closed = org.group(&acme.id, "CLOSED").await;
    let close = format!("UPDATE org.groups SET is_active = false WHERE id = '{closed}'");
    sqlx::query(sqlx::AssertSqlSafe(close)).execute(&org.owner).await.expect("closed");
    let path = format!("/internal/org/companies/{}/assignables", acme.id);
    let vacant = |id: &str, title: &str| json!({ "positionId": id, "title": title, "holderMemberId": null, "holderDisplayName": null });
    let held = json!({ "positionId": acme.position, "title": "POS", "holderMemberId": acme.ann,
        "holderDisplayName": "ann" });
    assert_eq!(
        org.get(&format!("{path}/positions")).await.data(),
        &json!([vacant(&first, "A"), held, vacant(&last, "Z")])
    );
    let groups = json!([{ "groupId": acme.group, "title": "GRP", "memberCount": 2 }]);
    assert_eq!(org.get(&format!("{path}/groups")).await.data(), &groups);
    let unknown = format!("/internal/org/companies/{}/assignables/groups", Uuid::now_v7());
    assert_eq!(org.get(&unknown).await.data(), &json!([]));
}

#[tokio::test]
async fn a_wrong_question_names_every_wrong_id() {
    let org = Org::start().await;
    let path = format!("/internal/org/companies/{}/lookup", Uuid::now_v7());
    let ids = |count: usize| json!(vec![Uuid::now_v7(); count]);
    assert_eq!(org.post(&path, json!({ "memberIds": ids(200) })).await.status, 200);
    let bad = json!({ "memberIds": ids(201), "positionIds": ["x", Uuid::now_v7(), 7], "groupIds": {} });
    let reply = org.post(&path, bad).await;
    assert_eq!(reply.status, 400);
    assert_eq!(
        fields(&reply),
        ["memberIds length", "positionIds[0] uuid", "positionIds[2] uuid", "groupIds type"]
    );
    assert_eq!(org.post(&path, json!([])).await.code(), "BAD_REQUEST");
    for tail in ["lookup", "assignables/positions", "assignables/groups"] {
        let path = format!("/internal/org/companies/x/{tail}");
        let reply = match tail {
            "lookup" => org.post(&path, json!({})).await,
            _ => org.get(&path).await,
        };
        assert_eq!((reply.status, reply.code()), (400, "BAD_REQUEST"), "{tail}");
    }
}
