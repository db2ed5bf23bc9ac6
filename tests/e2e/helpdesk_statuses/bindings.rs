//! Responses of binding operations under their own rules.

use serde_json::json;

use super::scene::Scene;
use crate::module_scene::{Call, NOTHING, Who};
use crate::tour::create_member;

const BIND: &str = "POST /bindings";
const POSITIONS: &str = "DELETE /bindings/positions/{positionId}";
const GROUPS: &str = "DELETE /bindings/groups/{groupId}";
const MEMBERS: &str = "DELETE /bindings/members/{memberId}";

pub(super) async fn bindings(scene: &mut Scene) {
    let (position, group) = (scene.rows.position.clone(), scene.rows.group.clone());
    let (alice, admin) = (scene.alice_member.clone(), scene.admin_member.clone());
    let unlinked = create_member(&scene.admin, &scene.company.clone(), "NOBODY").await;
    for (body, word) in [
        (json!({}), "BINDING_SUBJECT_AMBIGUOUS"),
        (json!({ "groupId": NOTHING }), "BINDING_SUBJECT_UNKNOWN"),
        (json!({ "memberId": unlinked }), "MEMBER_NOT_LINKED"),
    ] {
        scene.refused(Who::Admin, 422, word, BIND, Call::of(body)).await;
    }
    let many = format!(
        "INSERT INTO helpdesk.bindings(id, company_id, binding_kind, group_id, tier, state, granted_by)
         SELECT gen_random_uuid(), '{}', 'group', gen_random_uuid(), 'editor', 'active', 'x'
         FROM generate_series(1, 1000)",
        scene.company
    );
    scene.execute(many).await;
    scene.refused(Who::Admin, 422, "TOO_MANY_BINDINGS", BIND, Call::of(json!({ "groupId": group }))).await;
    scene.execute("DELETE FROM helpdesk.bindings WHERE granted_by = 'x'".to_owned()).await;
    for (operation, id) in [(POSITIONS, &position), (GROUPS, &group), (MEMBERS, &alice)] {
        scene.refused(Who::Admin, 404, "NOT_FOUND", operation, Call::about(id)).await;
        let wrong = Call { query: "?tier=member".to_owned(), ..Call::about(id) };
        scene.refused(Who::Admin, 400, "VALIDATION_ERROR", operation, wrong).await;
    }
    scene.refused(Who::Alice, 403, "ENGINE_DENIED", "GET /bindings", Call::default()).await;
    let held = [
        (json!({ "groupId": group }), GROUPS, &group),
        (json!({ "memberId": alice }), MEMBERS, &alice),
        (json!({ "positionId": position }), POSITIONS, &position),
    ];
    for (body, operation, id) in held {
        scene.expect(Who::Admin, 201, BIND, Call::of(body.clone())).await;
        scene.refused(Who::Admin, 409, "BINDING_EXISTS", BIND, Call::of(body)).await;
        if operation == GROUPS {
            let tier = scene.expect(Who::Alice, 200, "GET /tier", Call::default()).await;
            assert_eq!(tier["tier"], "admin", "she is in the group");
        }
        scene.refused(Who::Admin, 409, "LAST_ADMINISTRATOR", operation, Call::about(id)).await;
        // Another one takes its place, and then it may be removed.
        let other = if operation == MEMBERS { &admin } else { &alice };
        scene.expect(Who::Admin, 201, BIND, Call::of(json!({ "memberId": other }))).await;
        scene.expect(Who::Admin, 200, operation, Call::about(id)).await;
        // Removes the last one without the module, so that the next round starts with none.
        let sweep = "DELETE FROM helpdesk.bindings; DELETE FROM helpdesk.admin_guard";
        scene.execute(sweep.to_owned()).await;
    }
}
