//! The helpdesk depends on authorization: access follows changes of the organization, a member's list records no
//! denial, and notices arrive although no request waits for them.

use serde_json::{Value, json};

use super::scene::{PATIENCE, Scene, notices_are_settled, open};
use crate::harness::eventually;
use crate::module_scene::{Call, Who};

const SHOW: &str = "GET /tickets/{ticketId}";
#[tokio::test]
async fn access_follows_the_organization_and_notices_follow_changes() {
    let mut scene = Scene::start("helpdesk-organization").await;
    holders(&mut scene).await;
    denials(&mut scene).await;
    superadmins(&mut scene).await;
    notices(&mut scene).await;
}

async fn assign(scene: &Scene, position: &str, member: &str) {
    let path = format!("/api/org/admin/positions/{position}/assignments");
    scene.admin.post(&path, json!({ "memberId": member })).await.data(201);
}

/// The holder of a position changes in org: access follows with the next request, and the module writes nothing.
async fn holders(scene: &mut Scene) {
    let (position, ticket) = (scene.rows.position.clone(), open(scene, Who::Admin).await);
    let (alice, admin) = (scene.alice_member.clone(), scene.admin_member.clone());
    let body = Call::about(&ticket).with(json!({ "assigneePositionId": position }));
    scene.expect(Who::Admin, 200, "PUT /tickets/{ticketId}/assignee", body).await;
    notices_are_settled(scene).await;
    let before = scene.platform.contents("helpdesk").await;
    for _ in 0..3 {
        scene.refused(Who::Alice, 403, "NOT_TICKET_PARTY", SHOW, Call::about(&ticket)).await;
        assign(scene, &position, &alice).await;
        let shown = scene.expect(Who::Alice, 200, SHOW, Call::about(&ticket)).await;
        assert_eq!(shown["isAssignee"], true);
        assign(scene, &position, &admin).await;
    }
    scene.refused(Who::Alice, 403, "NOT_TICKET_PARTY", SHOW, Call::about(&ticket)).await;
    assert_eq!(scene.platform.contents("helpdesk").await, before, "not a row was written");
    // The same for a binding: the position's holder is an agent.
    let agents = Call::of(json!({ "positionId": position, "tier": "editor" }));
    scene.expect(Who::Admin, 201, "POST /bindings", agents).await;
    scene.refused(Who::Alice, 403, "ENGINE_DENIED", "GET /tickets", Call::asking("?view=all")).await;
    assign(scene, &position, &alice).await;
    scene.expect(Who::Alice, 200, "GET /tickets", Call::asking("?view=all")).await;
    assign(scene, &position, &admin).await;
    scene.refused(Who::Alice, 403, "ENGINE_DENIED", "GET /tickets", Call::asking("?view=all")).await;
}

async fn count(scene: &Scene, sql: &str) -> i64 {
    let owner = scene.platform.owner();
    let found = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&owner).await.expect("a count");
    owner.close().await;
    found
}

/// A member's ordinary calls record no denial in authz, although each reveals a tier; a refused call does.
async fn denials(scene: &mut Scene) {
    let rows = "SELECT count(*) FROM audit.authz__events WHERE action LIKE '%denied%'";
    let before = count(scene, rows).await;
    let ticket = scene.rows.ticket.clone();
    for operation in ["GET /tickets", "GET /tickets/search", "GET /tier"] {
        scene.expect(Who::Alice, 200, operation, Call::default()).await;
    }
    for operation in [SHOW, "GET /tickets/{ticketId}/comments", "GET /tickets/{ticketId}/history"] {
        scene.expect(Who::Alice, 200, operation, Call::about(&ticket)).await;
    }
    assert_eq!(count(scene, rows).await, before);
    scene.refused(Who::Alice, 403, "ENGINE_DENIED", "GET /bindings", Call::default()).await;
    assert_eq!(count(scene, rows).await, before + 1, "control: a refusal does");
}

/// A superadmin administers through the `system` tuple, and no longer once it is removed.
async fn superadmins(scene: &mut Scene) {
    let tier = scene.expect(Who::Admin, 200, "GET /tier", Call::default()).await;
    assert_eq!(tier["tier"], "admin");
    let tuple = json!({ "objectType": "company_module", "objectId": format!("{}/helpdesk", scene.company),
        "relation": "system", "subjectType": "system", "subjectId": "platform" });
    let body = json!({ "op": "revoke", "companyId": scene.company, "tuples": [tuple] });
    scene.admin.post("/api/auth/grants", body).await.data(200);
    scene.refused(Who::Admin, 403, "ENGINE_DENIED", "GET /bindings", Call::default()).await;
}

/// A ticket's events are posted to the company's channel on behalf of the acting member.
async fn notices(scene: &mut Scene) {
    let base = format!("/api/notification/v1/companies/{}", scene.company);
    let channel = json!({ "key": "helpdesk", "label": "Helpdesk", "kind": "in_app" });
    scene.admin.post(&format!("{base}/channels"), channel).await.data(201);
    let ticket = open(scene, Who::Alice).await;
    let shown = scene.expect(Who::Alice, 200, SHOW, Call::about(&ticket)).await;
    let line = format!("Ticket #{} was opened", shown["number"]);
    let admin = scene.admin.clone();
    eventually("the notice arrives", PATIENCE, || async {
        let reply = admin.get(&format!("{base}/messages?pageSize=100")).await;
        let messages = reply.data(200)["items"].as_array().cloned().unwrap_or_default();
        let found = messages.iter().find(|message| message["subjectLine"] == line);
        found.map(|_| ()).ok_or_else(|| Value::from(messages).to_string())
    })
    .await;
    let sender = "SELECT count(*) FROM notification.messages m JOIN org.members p ON p.user_id = m.created_by
        WHERE p.code = 'ALICE' AND m.source_module = 'helpdesk' AND m.event_type = 'ticket.created'";
    assert_eq!(count(scene, sender).await, 1);
}
