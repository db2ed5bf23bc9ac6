//! Shares, requests for access, comments and ownership.

use std::time::Duration;

use serde_json::json;

use super::scene::{Scene, make_document};
use crate::harness::eventually;
use crate::module_scene::{Call, NOTHING, Who, id};
use crate::tour::create_member;

const SHARE: &str = "POST /documents/{documentId}/shares";
const CHANGE: &str = "PUT /documents/{documentId}/shares/{shareId}";
const TAKE: &str = "DELETE /documents/{documentId}/shares/{shareId}";
const REQUEST: &str = "POST /documents/{documentId}/access-requests";
const ACCEPT: &str = "POST /documents/{documentId}/access-requests/{accessRequestId}/accept";
const DECLINE: &str = "POST /documents/{documentId}/access-requests/{accessRequestId}/decline";
const TRANSFER: &str = "POST /documents/{documentId}/transfer";

/// Longest wait for the module to reach a locked row.
const WAITING: Duration = Duration::from_secs(2);

pub(super) fn two(first: &str, second: &str) -> Call {
    Call { ids: vec![first.to_owned(), second.to_owned()], ..Call::default() }
}

/// Every invalid principal for the operation at this id.
pub(super) async fn wrong_principals(scene: &mut Scene, operation: &str, table: &str, about: &str) {
    let unlinked = create_member(&scene.admin, &scene.company, &format!("UNLINKED-{table}")).await;
    let [alice, admin] = [scene.alice_member.clone(), scene.admin_member.clone()];
    let member = |id: &str| json!({ "memberId": id, "role": "viewer" });
    for (word, body) in [
        ("PRINCIPAL_AMBIGUOUS", json!({ "role": "viewer" })),
        ("PRINCIPAL_UNKNOWN", member(NOTHING)),
        ("MEMBER_NOT_LINKED", member(&unlinked)),
        ("PRINCIPAL_IS_OWNER", member(&admin)),
    ] {
        scene.refused(Who::Admin, 422, word, operation, Call::about(about).with(body)).await;
    }
    fill(scene, table, about).await;
    scene
        .refused(Who::Admin, 422, "TOO_MANY_SHARES", operation, Call::about(about).with(member(&alice)))
        .await;
    scene.execute("DELETE FROM docs.shares WHERE granted_by = 'x'".to_owned()).await;
}

/// Gives a document or folder the most shares, all by `x`.
async fn fill(scene: &Scene, table: &str, about: &str) {
    let column = if table == "documents" { "document_id" } else { "folder_id" };
    let company = &scene.company;
    scene
        .execute(format!(
            "INSERT INTO docs.shares(id, company_id, {column}, principal_kind, group_id, role, state, granted_by)
             SELECT gen_random_uuid(), '{company}', '{about}', 'group', gen_random_uuid(), 'viewer', 'active', 'x'
             FROM generate_series(1, 200)"
        ))
        .await;
}

/// Marks a share as changing to another role.
pub(super) async fn set_changing(scene: &Scene, share: &str, next: Option<&str>) {
    let (state, next) = match next {
        Some(role) => ("exchanging", format!("'{role}'")),
        None => ("active", "NULL".to_owned()),
    };
    scene
        .execute(format!(
            "UPDATE docs.shares SET state = '{state}', next_role = {next}, attempts = 1 WHERE id = '{share}'"
        ))
        .await;
}

pub(super) async fn shares(scene: &mut Scene) {
    let document = make_document(scene, "Shared").await;
    wrong_principals(scene, SHARE, "documents", &document).await;
    let member = scene.alice_member.clone();
    let alice = || Call::about(&document).with(json!({ "memberId": member, "role": "viewer" }));
    let share = id(&scene.expect(Who::Admin, 201, SHARE, alice()).await);
    scene.refused(Who::Admin, 409, "SHARE_EXISTS", SHARE, alice()).await;
    let role = |role: &str| two(&document, &share).with(json!({ "role": role }));
    scene.expect(Who::Admin, 200, CHANGE, role("editor")).await;
    scene.refused(Who::Admin, 400, "VALIDATION_ERROR", CHANGE, role("owner")).await;
    set_changing(scene, &share, Some("viewer")).await;
    scene.expect(Who::Admin, 200, CHANGE, role("commenter")).await;
    scene.execute(format!("UPDATE docs.shares SET state = 'revoking' WHERE id = '{share}'")).await;
    scene.refused(Who::Admin, 409, "CONFLICT", CHANGE, role("commenter")).await;
    scene.expect(Who::Admin, 200, TAKE, two(&document, &share)).await;
    let share = id(&scene.expect(Who::Admin, 201, SHARE, alice()).await);
    taken_while_it_changes(scene, TAKE, &document, &share).await;
    scene.expect(Who::Alice, 200, TAKE, two(&document, &share)).await;
}

/// A share whose change has an unknown outcome is not taken.
pub(super) async fn taken_while_it_changes(scene: &mut Scene, operation: &str, about: &str, share: &str) {
    let owner = scene.platform.owner();
    let mut busy = owner.begin().await.expect("a transaction");
    // Its role is read before the change began, its state afterwards.
    let lock = format!("SELECT 1 FROM docs.shares WHERE id = '{share}' FOR UPDATE");
    sqlx::query(sqlx::AssertSqlSafe(lock)).execute(&mut *busy).await.expect("the row is there");
    let call = two(about, share);
    let company = scene.company.clone();
    let change = format!(
        "UPDATE docs.shares SET state = 'exchanging', next_role = 'editor', attempts = 1 WHERE id = '{share}'"
    );
    let settle = async {
        eventually("the module waits for the row", WAITING, || async {
            let waits = "SELECT FROM pg_stat_activity WHERE datname = current_database()
                           AND usename = 'platform_docs' AND wait_event_type = 'Lock'";
            let found = sqlx::query(waits).fetch_optional(&owner).await.expect("the database is there");
            found.map(drop).ok_or_else(|| "no session of the module waits".to_owned())
        })
        .await;
        sqlx::query(sqlx::AssertSqlSafe(change)).execute(&mut *busy).await.expect("it is ours");
        busy.commit().await.expect("it ends");
    };
    let (reply, ()) = tokio::join!(scene.answer(&company, Who::Admin, operation, call), settle);
    assert_eq!((reply.status.as_u16(), reply.body["error"]["code"].as_str()), (409, Some("CONFLICT")));
    set_changing(scene, share, None).await;
    owner.close().await;
}

pub(super) async fn requests(scene: &mut Scene) {
    let document = make_document(scene, "Wanted").await;
    let ask = |role: &str| Call::about(&document).with(json!({ "role": role }));
    let request = id(&scene.expect(Who::Alice, 201, REQUEST, ask("viewer")).await);
    scene.refused(Who::Alice, 409, "ACCESS_REQUEST_OPEN", REQUEST, ask("editor")).await;
    scene.refused(Who::Admin, 409, "ACCESS_HELD", REQUEST, ask("viewer")).await;
    scene.expect(Who::Admin, 200, DECLINE, two(&document, &request)).await;
    scene.refused(Who::Admin, 409, "ACCESS_REQUEST_DECIDED", DECLINE, two(&document, &request)).await;
    scene.refused(Who::Admin, 409, "ACCESS_REQUEST_DECIDED", ACCEPT, two(&document, &request)).await;
    let request = id(&scene.expect(Who::Alice, 201, REQUEST, ask("viewer")).await);
    deactivated(scene, true).await;
    scene.refused(Who::Admin, 422, "PRINCIPAL_UNKNOWN", ACCEPT, two(&document, &request)).await;
    deactivated(scene, false).await;
    let former =
        format!("UPDATE docs.access_requests SET kc_sub = kc_sub || '-former' WHERE id = '{request}'");
    scene.execute(former).await;
    scene.refused(Who::Admin, 409, "MEMBER_RELINKED", ACCEPT, two(&document, &request)).await;
    let again = format!(
        "UPDATE docs.access_requests SET kc_sub = replace(kc_sub, '-former', '') WHERE id = '{request}'"
    );
    scene.execute(again).await;
    scene.expect(Who::Admin, 200, ACCEPT, two(&document, &request)).await;
}

/// Alice leaves the company, or returns.
async fn deactivated(scene: &Scene, gone: bool) {
    let path = format!("/api/org/admin/members/{}", scene.alice_member);
    let reply = scene.admin.send(reqwest::Method::PUT, &path, Some(json!({ "isActive": !gone }))).await;
    assert!(reply.status.is_success(), "{}", reply.body);
}

pub(super) async fn comments(scene: &mut Scene) {
    let document = scene.rows.document.clone();
    let write = "POST /documents/{documentId}/comments";
    let resolve = "POST /documents/{documentId}/comments/{commentId}/resolve";
    let comment =
        id(&scene.expect(Who::Admin, 201, write, Call::about(&document).with(json!({ "body": "x" }))).await);
    scene.expect(Who::Admin, 200, resolve, two(&document, &comment)).await;
    scene.refused(Who::Admin, 409, "COMMENT_RESOLVED", resolve, two(&document, &comment)).await;
}

pub(super) async fn transfers(scene: &mut Scene) {
    let document = make_document(scene, "Given").await;
    let to = |id: &str| Call::about(&document).with(json!({ "memberId": id }));
    let unlinked = create_member(&scene.admin, &scene.company, "UNLINKED").await;
    let [alice, admin] = [scene.alice_member.clone(), scene.admin_member.clone()];
    for (word, member) in [
        ("PRINCIPAL_UNKNOWN", NOTHING),
        ("MEMBER_NOT_LINKED", unlinked.as_str()),
        ("PRINCIPAL_IS_OWNER", admin.as_str()),
    ] {
        scene.refused(Who::Admin, 422, word, TRANSFER, to(member)).await;
    }
    scene.execute(format!("UPDATE docs.documents SET transfer_to = 'other' WHERE id = '{document}'")).await;
    scene.refused(Who::Admin, 409, "TRANSFER_IN_PROGRESS", TRANSFER, to(&alice)).await;
    scene.execute(format!("UPDATE docs.documents SET transfer_to = NULL WHERE id = '{document}'")).await;
    fill(scene, "documents", &document).await;
    scene.refused(Who::Admin, 422, "TOO_MANY_SHARES", TRANSFER, to(&alice)).await;
    scene.execute("DELETE FROM docs.shares WHERE granted_by = 'x'".to_owned()).await;
    scene.expect(Who::Admin, 200, TRANSFER, to(&alice)).await;
    scene.expect(Who::Alice, 200, "GET /documents/{documentId}", Call::about(&document)).await;
}
