//! Documents, their versions and the trash.

use serde_json::{Value, json};

use super::scene::{Scene, make_document, set_trashed};
use crate::module_scene::{Call, NOTHING, Who};

const CREATE: &str = "POST /documents";
const UPDATE: &str = "PUT /documents/{documentId}";
const DUPLICATE: &str = "POST /documents/{documentId}/duplicate";

/// Unknown ids of documents, folders, versions, shares, comments and requests.
pub(super) async fn unknown(scene: &mut Scene) {
    for (operation, documented) in scene.operations() {
        if !documented.contains(&404) {
            continue;
        }
        let call = scene.sample(&operation);
        let first = Call { ids: [vec![NOTHING.to_owned()], call.ids[1..].to_vec()].concat(), ..call.clone() };
        scene.refused(Who::Admin, 404, "NOT_FOUND", &operation, first).await;
        if let [document, inner] = call.ids.as_slice() {
            let inner = if inner == "1" { "9" } else { NOTHING };
            let ids = vec![document.clone(), inner.to_owned()];
            scene.refused(Who::Admin, 404, "NOT_FOUND", &operation, Call { ids, ..call }).await;
        }
    }
}

/// Writes, and their refusals.
pub(super) async fn texts(scene: &mut Scene) {
    let document = make_document(scene, "Texts").await;
    let about = |body: Value| Call::about(&document).with(body);
    scene.expect(Who::Admin, 200, UPDATE, about(json!({ "body": "two", "baseVersion": 1 }))).await;
    let late = about(json!({ "body": "mine", "baseVersion": 1 }));
    scene.refused(Who::Admin, 409, "VERSION_CONFLICT", UPDATE, late).await;
    scene.refused(Who::Admin, 400, "VALIDATION_ERROR", UPDATE, about(json!({ "baseVersion": 0 }))).await;
    scene.refused(Who::Alice, 403, "ENGINE_DENIED", UPDATE, about(json!({ "baseVersion": 2 }))).await;
    let restore = "POST /documents/{documentId}/versions/{version}/restore";
    let first = Call { ids: vec![document.clone(), "1".to_owned()], ..Call::default() };
    scene.expect(Who::Admin, 200, restore, first).await;
    let nowhere = json!({ "title": "In", "folderId": NOTHING });
    scene.refused(Who::Admin, 422, "FOLDER_UNKNOWN", CREATE, Call::of(nowhere.clone())).await;
    scene.refused(Who::Admin, 422, "FOLDER_UNKNOWN", DUPLICATE, about(nowhere)).await;
    scene.expect(Who::Admin, 201, DUPLICATE, about(json!({}))).await;
    let access = "PUT /documents/{documentId}/access";
    scene.expect(Who::Admin, 200, access, about(json!({ "generalAccess": "company_view" }))).await;
    scene.expect(Who::Alice, 200, "GET /documents/{documentId}", Call::about(&document)).await;
}

/// Idempotency keys: the stored response, another body, and a first request that is still running.
pub(super) async fn keys(scene: &mut Scene) {
    let with_key = |call: Call, key| Call { header: Some(("idempotency-key", key)), ..call };
    let document = scene.rows.document.clone();
    for (operation, call, other) in [
        (CREATE, Call::of(json!({ "title": "Keyed" })), Call::of(json!({ "title": "Other" }))),
        (
            DUPLICATE,
            Call::about(&document).with(json!({})),
            Call::about(&document).with(json!({ "title": "x" })),
        ),
        (
            "POST /documents/{documentId}/comments",
            Call::about(&document).with(json!({ "body": "Keyed" })),
            Call::about(&document).with(json!({ "body": "Other" })),
        ),
        ("POST /folders", Call::of(json!({ "name": "Keyed" })), Call::of(json!({ "name": "Other" }))),
    ] {
        let made = scene.expect(Who::Admin, 201, operation, with_key(call.clone(), "first")).await;
        let again = scene.expect(Who::Admin, 201, operation, with_key(call.clone(), "first")).await;
        assert_eq!(made, again);
        scene.refused(Who::Admin, 422, "IDEMPOTENCY_KEY_REUSED", operation, with_key(other, "first")).await;
        let owner = scene.platform.owner();
        let mut unfinished = owner.begin().await.expect("a transaction");
        let sql = "INSERT INTO docs.idempotency_keys SELECT company_id, operation, actor, 'unfinished', fingerprint,
            status, response, resource_id, created_at, expires_at FROM docs.idempotency_keys WHERE idem_key = 'first'
            ON CONFLICT DO NOTHING";
        sqlx::query(sql).execute(&mut *unfinished).await.expect("the key is written");
        scene
            .refused(Who::Admin, 409, "IDEMPOTENCY_IN_PROGRESS", operation, with_key(call, "unfinished"))
            .await;
        unfinished.rollback().await.expect("the key is free");
        owner.close().await;
    }
}

/// For a document in the trash, everything except the managers' operations is a conflict.
pub(super) async fn trash(scene: &mut Scene) {
    let document = scene.rows.document.clone();
    set_trashed(scene, &document, true).await;
    for (operation, documented) in scene.operations() {
        let still = ["/restore", "/history", "/access-requests"].iter().any(|tail| operation.ends_with(tail))
            && !operation.contains("{version}")
            && !operation.starts_with("GET /documents/{documentId}/access");
        let shares = operation.contains("/shares") && !operation.starts_with('P');
        let is_about_it = operation.contains("{documentId}");
        if !is_about_it || !documented.contains(&409) || still || shares {
            continue;
        }
        let call = scene.sample(&operation);
        scene.refused(Who::Admin, 409, "DOCUMENT_TRASHED", &operation, call).await;
    }
    let restore = "POST /documents/{documentId}/restore";
    scene.expect(Who::Admin, 200, restore, Call::about(&document)).await;
    scene.refused(Who::Admin, 409, "DOCUMENT_NOT_TRASHED", restore, Call::about(&document)).await;
    let delete = "DELETE /documents/{documentId}";
    scene.expect(Who::Admin, 200, delete, Call::about(&document)).await;
    set_trashed(scene, &document, false).await;
}

/// Reads.
pub(super) async fn reads(scene: &mut Scene) {
    for (operation, _) in scene.operations() {
        if operation.starts_with("GET ") {
            let call = scene.sample(&operation);
            scene.expect(Who::Admin, 200, &operation, call).await;
        }
    }
}
