//! Responses of ticket and comment operations under their own rules.

use serde_json::json;

use super::scene::{Scene, open};
use crate::module_scene::{Call, NOTHING, Who};

const SHOW: &str = "GET /tickets/{ticketId}";
const HISTORY: &str = "GET /tickets/{ticketId}/history";
const ASSIGN: &str = "PUT /tickets/{ticketId}/assignee";
const MOVE: &str = "PUT /tickets/{ticketId}/status";
const COMMENTS: &str = "GET /tickets/{ticketId}/comments";
const COMMENT: &str = "POST /tickets/{ticketId}/comments";

fn to(ticket: &str, status: &str) -> Call {
    Call::about(ticket).with(json!({ "status": status }))
}

pub(super) async fn reads(scene: &mut Scene) {
    for operation in [
        "GET /tier",
        "GET /tickets",
        "GET /tickets/search",
        SHOW,
        HISTORY,
        COMMENTS,
        "GET /assignable-positions",
        "GET /assignable-groups",
        "GET /bindings",
        "GET /settings",
        "PUT /settings",
    ] {
        let call = scene.sample(operation);
        scene.expect(Who::Admin, 200, operation, call).await;
    }
    let tier = scene.expect(Who::Alice, 200, "GET /tier", Call::default()).await;
    assert_eq!(tier["tier"], "member");
    scene.refused(Who::Alice, 403, "ENGINE_DENIED", "GET /tickets", Call::asking("?view=all")).await;
    let theirs = open(scene, Who::Admin).await;
    for operation in [SHOW, HISTORY, COMMENTS] {
        scene.refused(Who::Alice, 403, "NOT_TICKET_PARTY", operation, Call::about(&theirs)).await;
        scene.refused(Who::Admin, 404, "NOT_FOUND", operation, Call::about(NOTHING)).await;
    }
    scene.refused(Who::Alice, 403, "NOT_TICKET_PARTY", MOVE, to(&theirs, "closed")).await;
    let say = Call::about(&theirs).with(json!({ "body": "x" }));
    scene.refused(Who::Alice, 403, "NOT_TICKET_PARTY", COMMENT, say).await;
}

pub(super) async fn assignments(scene: &mut Scene) {
    let ticket = open(scene, Who::Alice).await;
    let (position, member) = (scene.rows.position.clone(), scene.alice_member.clone());
    let body = |body| Call::about(&ticket).with(body);
    scene.expect(Who::Admin, 200, ASSIGN, body(json!({ "assigneePositionId": position }))).await;
    let both = json!({ "assigneePositionId": position, "assigneeMemberId": member });
    scene.refused(Who::Admin, 422, "ASSIGNEE_AMBIGUOUS", ASSIGN, body(both)).await;
    let unknown = json!({ "assigneeGroupId": NOTHING });
    scene.refused(Who::Admin, 422, "ASSIGNEE_UNKNOWN", ASSIGN, body(unknown)).await;
    scene.refused(Who::Admin, 400, "VALIDATION_ERROR", ASSIGN, body(json!({ "assigneeGroupId": 7 }))).await;
    scene.expect(Who::Admin, 200, ASSIGN, Call::about(&ticket)).await;
    let nobody = Call::about(NOTHING).with(json!({}));
    scene.refused(Who::Admin, 404, "NOT_FOUND", ASSIGN, nobody).await;
    scene.expect(Who::Alice, 200, MOVE, to(&ticket, "closed")).await;
    scene.refused(Who::Admin, 409, "TICKET_CLOSED", ASSIGN, body(json!({}))).await;
    let say = body(json!({ "body": "x" }));
    scene.refused(Who::Alice, 409, "TICKET_CLOSED", COMMENT, say).await;
}

pub(super) async fn moves(scene: &mut Scene) {
    let ticket = open(scene, Who::Alice).await;
    scene.refused(Who::Alice, 403, "TRANSITION_NOT_ALLOWED_FOR_ROLE", MOVE, to(&ticket, "resolved")).await;
    scene.expect(Who::Admin, 200, MOVE, to(&ticket, "resolved")).await;
    let rules = |days| Call::of(json!({ "reporterReopenDays": days }));
    scene.expect(Who::Admin, 200, "PUT /settings", rules(Some(1))).await;
    let aged =
        "UPDATE helpdesk.tickets SET resolved_at = now() - interval '2 days' WHERE status = 'resolved'";
    scene.execute(aged.to_owned()).await;
    scene.refused(Who::Alice, 403, "REOPEN_PERIOD_OVER", MOVE, to(&ticket, "open")).await;
    scene.expect(Who::Admin, 200, "PUT /settings", rules(None)).await;
    scene.expect(Who::Alice, 200, MOVE, to(&ticket, "open")).await;
    scene.expect(Who::Alice, 200, MOVE, to(&ticket, "closed")).await;
    scene.refused(Who::Admin, 409, "TICKET_INVALID_TRANSITION", MOVE, to(&ticket, "resolved")).await;
    scene.refused(Who::Admin, 400, "VALIDATION_ERROR", MOVE, to(&ticket, "done")).await;
    scene.refused(Who::Admin, 404, "NOT_FOUND", MOVE, to(NOTHING, "closed")).await;
}

pub(super) async fn comments(scene: &mut Scene) {
    let ticket = scene.rows.ticket.clone();
    let body = |body| Call::about(&ticket).with(body);
    scene.expect(Who::Alice, 201, COMMENT, body(json!({ "body": "It burns." }))).await;
    let note = json!({ "body": "Again?", "visibility": "internal" });
    scene.refused(Who::Alice, 403, "NOT_AGENT", COMMENT, body(note.clone())).await;
    scene.expect(Who::Admin, 201, COMMENT, body(note)).await;
    let seen = scene.expect(Who::Alice, 200, COMMENTS, Call::about(&ticket)).await;
    assert_eq!(seen.as_array().map(Vec::len), Some(1), "{seen}");
    scene.refused(Who::Alice, 400, "VALIDATION_ERROR", COMMENT, body(json!({ "body": "" }))).await;
    let nothing = Call::about(NOTHING).with(json!({ "body": "x" }));
    scene.refused(Who::Admin, 404, "NOT_FOUND", COMMENT, nothing).await;
}

/// Idempotency keys: the stored response, another body, and a first request that is still running.
pub(super) async fn keys(scene: &mut Scene) {
    let ticket = scene.rows.ticket.clone();
    let title = |title: &str| Call::of(json!({ "title": title, "description": "" }));
    let say = |text: &str| Call::about(&ticket).with(json!({ "body": text }));
    let with_key = |call: Call, key| Call { header: Some(("idempotency-key", key)), ..call };
    for (operation, first, other) in
        [("POST /tickets", title("x"), title("y")), (COMMENT, say("x"), say("y"))]
    {
        let made = scene.expect(Who::Alice, 201, operation, with_key(first.clone(), "first")).await;
        let again = scene.expect(Who::Alice, 201, operation, with_key(first.clone(), "first")).await;
        assert_eq!(made, again);
        scene.refused(Who::Alice, 422, "IDEMPOTENCY_KEY_REUSED", operation, with_key(other, "first")).await;
        let owner = scene.platform.owner();
        let mut unfinished = owner.begin().await.expect("a transaction");
        let sql = "INSERT INTO helpdesk.idempotency_keys SELECT company_id, operation, actor, 'unfinished', fingerprint,
            status, response, resource_id, created_at, expires_at FROM helpdesk.idempotency_keys WHERE idem_key = 'first'
            ON CONFLICT DO NOTHING";
        sqlx::query(sql).execute(&mut *unfinished).await.expect("the key is written");
        let call = with_key(first, "unfinished");
        scene.refused(Who::Alice, 409, "IDEMPOTENCY_IN_PROGRESS", operation, call).await;
        unfinished.rollback().await.expect("the database");
        owner.close().await;
    }
}
