//! Assigning a ticket to a member, a position or a group, and unassigning it.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{AGENT, ALICE, BOB, EVE, World, told};

#[tokio::test]
async fn an_assignment_names_one_of_three_or_nobody_and_leaves_the_status() {
    let world = World::start().await;
    let (desk, group) = (world.position("Service desk", Some(BOB)), world.group("First line", &[EVE]));
    let ticket = world.open(ALICE, "x").await;
    let bob = world.people[BOB].member;
    for (body, kind, name) in [
        (json!({ "assigneeMemberId": bob }), json!("member"), json!("Person 3")),
        (json!({ "assigneePositionId": desk }), json!("position"), json!("Service desk")),
        (json!({ "assigneeGroupId": group, "assigneeMemberId": null }), json!("group"), json!("First line")),
        (json!({}), Value::Null, Value::Null),
    ] {
        let reply = world.assign(AGENT, &ticket, body.clone()).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let data = reply.data();
        assert_eq!([&data["assigneeKind"], &data["assigneeDisplayName"]], [&kind, &name]);
        let ids = ["assigneeMemberId", "assigneePositionId", "assigneeGroupId"];
        let set = ids.iter().filter(|id| !data[**id].is_null()).count();
        assert_eq!(set, usize::from(!kind.is_null()), "{body}");
        assert_eq!(data["status"], "open");
        // Repeating the assignment changes nothing.
        let before = world.contents().await;
        let again = world.assign(AGENT, &ticket, body).await;
        assert_eq!((again.status, &again.data()["updatedAt"]), (200, &data["updatedAt"]));
        assert_eq!(world.contents().await, before);
    }
    let history = world.history(ALICE, &ticket).await;
    let assigned = "ticket.assigned";
    assert_eq!(history, ["ticket.created", assigned, assigned, assigned, "ticket.unassigned"]);
}

#[tokio::test]
async fn no_body_at_all_takes_an_assignment_back() {
    let world = World::start().await;
    let ticket = world.open(ALICE, "x").await;
    world.assign(AGENT, &ticket, json!({ "assigneeMemberId": world.people[BOB].member })).await;
    let reply = world.ask(AGENT, "PUT", &format!("/tickets/{ticket}/assignee"), None).await;
    assert_eq!((reply.status, &reply.data()["assigneeKind"]), (200, &Value::Null), "{}", reply.text);
}

#[tokio::test]
async fn two_assignees_and_unknown_or_inactive_ones_are_refused() {
    let world = World::start().await;
    let (desk, gone) = (world.position("Service desk", None), world.group("Gone", &[]));
    world.company().groups.get_mut(&gone).expect("a group").1 = false;
    world.company().members.get_mut(&world.people[EVE].member).expect("a member").active = false;
    let ticket = world.open(ALICE, "x").await;
    let before = world.contents().await;
    let bob = world.people[BOB].member;
    for (body, word) in [
        (json!({ "assigneeMemberId": bob, "assigneePositionId": desk }), "ASSIGNEE_AMBIGUOUS"),
        (json!({ "assigneeMemberId": Uuid::now_v7() }), "ASSIGNEE_UNKNOWN"),
        (json!({ "assigneeMemberId": world.people[EVE].member }), "ASSIGNEE_UNKNOWN"),
        (json!({ "assigneePositionId": bob }), "ASSIGNEE_UNKNOWN"),
        (json!({ "assigneeGroupId": gone }), "ASSIGNEE_UNKNOWN"),
    ] {
        assert_eq!(told(&world.assign(AGENT, &ticket, body).await), (422, word));
    }
    assert_eq!(told(&world.assign(ALICE, &ticket, json!({})).await), (403, "ENGINE_DENIED"));
    assert_eq!(told(&world.assign(AGENT, &Uuid::now_v7().to_string(), json!({})).await), (404, "NOT_FOUND"));
    assert_eq!(world.contents().await, before);
}

#[tokio::test]
async fn property_8_access_follows_the_holder_of_a_position_without_a_write() {
    let world = World::start().await;
    let desk = world.position("Service desk", Some(BOB));
    let ticket = world.open(ALICE, "x").await;
    world.assign(AGENT, &ticket, json!({ "assigneePositionId": desk })).await;
    let before = world.contents().await;
    for (holder, other) in [(BOB, EVE), (EVE, BOB), (BOB, EVE)] {
        world.hold(desk, Some(holder));
        let shown = world.show(holder, &ticket).await;
        assert_eq!((shown.status, &shown.data()["isAssignee"]), (200, &json!(true)));
        assert_eq!(world.list(holder, "/tickets").await.len(), 1);
        assert_eq!(told(&world.show(other, &ticket).await), (403, "NOT_TICKET_PARTY"));
        assert!(world.list(other, "/tickets").await.is_empty());
    }
    world.hold(desk, None);
    assert_eq!(told(&world.show(BOB, &ticket).await), (403, "NOT_TICKET_PARTY"));
    assert_eq!(world.contents().await, before, "not a row was written");
    world.hold(desk, Some(EVE));
    assert_eq!(world.move_to(EVE, &ticket, "in_progress").await.status, 200, "and the right to work on it");
}
