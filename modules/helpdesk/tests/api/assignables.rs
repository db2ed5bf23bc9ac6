//! The positions and groups that a ticket can be assigned to.

use serde_json::json;
use testkit::module::gates;

use crate::world::{AGENT, ALICE, BOB, World, told};

#[tokio::test]
async fn an_agent_lists_vacant_positions_and_active_groups() {
    let world = World::start().await;
    let desk = world.position("Service desk", Some(BOB));
    let vacant = world.position("Night desk", None);
    let group = world.group("First line", &[ALICE, BOB]);
    let gone = world.group("Gone", &[]);
    world.company().groups.get_mut(&gone).expect("a group").1 = false;
    let positions = world.list(AGENT, "/assignable-positions").await;
    let holder = world.people[BOB].member;
    assert!(
        positions.contains(&json!({ "positionId": desk, "title": "Service desk", "holderMemberId": holder,
        "holderDisplayName": "Person 3" }))
    );
    assert!(
        positions.contains(&json!({ "positionId": vacant, "title": "Night desk", "holderMemberId": null,
        "holderDisplayName": null }))
    );
    let groups = world.list(AGENT, "/assignable-groups").await;
    assert_eq!(groups, [json!({ "groupId": group, "title": "First line", "memberCount": 2 })]);
    for tail in ["/assignable-positions", "/assignable-groups"] {
        assert_eq!(told(&world.ask(ALICE, "GET", tail, None).await), (403, "ENGINE_DENIED"));
    }
    world.module.org.close("GET", &format!("/internal/org/companies/{}/assignables/*", world.module.company));
    for tail in ["/assignable-positions", "/assignable-groups"] {
        gates::refused_for(&world.ask(AGENT, "GET", tail, None).await, "org", tail);
    }
}
