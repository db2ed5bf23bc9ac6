//! The caller's tier.

use serde_json::json;

use crate::world::{ADMIN, AGENT, ALICE, World, told};

#[tokio::test]
async fn property_11_tiers_are_monotone_and_end_with_the_tuples_that_give_them() {
    let world = World::start().await;
    for (who, tier) in [(ADMIN, "admin"), (AGENT, "editor"), (ALICE, "member")] {
        let reply = world.ask(who, "GET", "/tier", None).await;
        assert_eq!(reply.data(), &json!({ "tier": tier }));
    }
    // A caller with a tier also has those below it.
    for (who, all, bindings) in [(ADMIN, 200, 200), (AGENT, 200, 403), (ALICE, 403, 403)] {
        assert_eq!(world.ask(who, "GET", "/tickets", None).await.status, 200);
        assert_eq!(world.ask(who, "GET", "/tickets?view=all", None).await.status, all, "{who}");
        assert_eq!(world.ask(who, "GET", "/bindings", None).await.status, bindings, "{who}");
    }
    // A superadmin without a member row is an administrator as long as the system's tuple exists; here authz is
    // scripted to say so.
    let operator = &world.people[ADMIN].member;
    world.company().members.remove(operator);
    assert_eq!(world.ask(ADMIN, "GET", "/tier", None).await.data(), &json!({ "tier": "admin" }));
    let all = world.ask(ADMIN, "GET", "/tickets?view=all", None).await;
    assert_eq!(all.status, 200, "{}", all.text);
    let opened = world.ask(ADMIN, "POST", "/tickets", Some(json!({ "title": "x", "description": "" }))).await;
    assert_eq!(told(&opened), (403, "COMPANY_MEMBERSHIP_REQUIRED"), "a ticket's reporter must be a member");
    world.rights(ADMIN, &[]);
    assert_eq!(told(&world.ask(ADMIN, "GET", "/tier", None).await), (403, "ENGINE_DENIED"));
}
