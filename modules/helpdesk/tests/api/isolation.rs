//! Rows of another company are unknown, whoever asks.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{ADMIN, AGENT, ALICE, World};

#[tokio::test]
async fn property_12_another_companys_ids_are_unknown_to_every_operation() {
    let world = World::start().await;
    let module = &world.module;
    let ticket = world.open(ALICE, "x").await;
    assert_eq!(world.comment(AGENT, &ticket, json!({ "body": "x" })).await.status, 201);
    let (desk, group) = (world.position("Desk", Some(ALICE)), world.group("Line", &[ALICE]));
    let member = world.people[ALICE].member;
    for body in [json!({ "memberId": member }), json!({ "positionId": desk }), json!({ "groupId": group })] {
        assert_eq!(world.bind(ADMIN, body).await.status, 201);
    }
    // In the other company, the caller has every right.
    let other = Uuid::now_v7();
    module.decide(|_| true);
    let base = format!("/internal/org/companies/{other}");
    let place = json!({ "data": { "isMember": true, "isActive": true, "memberId": Uuid::now_v7(), "displayName": "x",
        "email": null, "positionIds": [], "groupIds": [] } });
    module.org.answer("GET", &format!("{base}/members/by-kcsub/*"), 200, place);
    let nobody = json!({ "data": { "members": [], "positions": [], "groups": [] } });
    module.org.answer("POST", &format!("{base}/lookup"), 200, nobody);
    let before = world.contents().await;
    let status = json!({ "status": "closed" });
    for (method, tail, body) in [
        ("GET", format!("/tickets/{ticket}"), Value::Null),
        ("GET", format!("/tickets/{ticket}/history"), Value::Null),
        ("PUT", format!("/tickets/{ticket}/assignee"), json!({})),
        ("PUT", format!("/tickets/{ticket}/status"), status),
        ("GET", format!("/tickets/{ticket}/comments"), Value::Null),
        ("POST", format!("/tickets/{ticket}/comments"), json!({ "body": "x" })),
        ("DELETE", format!("/bindings/positions/{desk}"), Value::Null),
        ("DELETE", format!("/bindings/groups/{group}"), Value::Null),
        ("DELETE", format!("/bindings/members/{member}"), Value::Null),
    ] {
        let call = module.call(method, &module.path(other, &tail));
        let call = if body.is_null() { call } else { call.json(body) };
        let reply = module.send(method, &tail, call).await;
        assert_eq!((reply.status, reply.code()), (404, "NOT_FOUND"), "{method} {tail}");
    }
    for tail in ["/tickets", "/tickets?view=all", "/bindings"] {
        let reply = module.call("GET", &module.path(other, tail)).send().await;
        assert_eq!((reply.status, reply.data()), (200, &json!([])), "{tail}");
    }
    let found = module.call("GET", &module.path(other, "/tickets/search?q=x")).send().await;
    assert_eq!(found.data()["total"], 0);
    let rules = module.call("GET", &module.path(other, "/settings")).send().await;
    assert_eq!(rules.data()["companyId"], json!(other));
    assert_eq!(world.contents().await, before);
}

#[tokio::test]
async fn property_13_an_id_that_is_bound_by_another_kind_is_unknown() {
    let world = World::start().await;
    let (desk, group) = (world.position("Desk", Some(ALICE)), world.group("Line", &[ALICE]));
    let member = world.people[ALICE].member;
    for body in [json!({ "memberId": member }), json!({ "positionId": desk }), json!({ "groupId": group })] {
        assert_eq!(world.bind(ADMIN, body).await.status, 201);
    }
    for (kind, id) in
        [("positions", group), ("groups", member), ("members", desk), ("members", Uuid::now_v7())]
    {
        assert_eq!(world.unbind(ADMIN, kind, id).await.status, 404, "{kind}");
    }
    let editor = world.ask(ADMIN, "DELETE", &format!("/bindings/groups/{group}?tier=editor"), None).await;
    assert_eq!(editor.status, 404, "and it has no binding to another tier");
    assert_eq!(world.list(ADMIN, "/bindings").await.len(), 3);
}
