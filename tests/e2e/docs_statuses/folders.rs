//! Folders, their contents and their shares.

use serde_json::json;

use super::scene::{Scene, make_document, make_folder};
use super::sharing::{set_changing, taken_while_it_changes, two, wrong_principals};
use crate::module_scene::{Call, NOTHING, Who, id};

const CREATE: &str = "POST /folders";
const DELETE: &str = "DELETE /folders/{folderId}";
const MOVE: &str = "POST /folders/{folderId}/move";
const MOVE_DOCUMENT: &str = "POST /documents/{documentId}/move";
const SHARE: &str = "POST /folders/{folderId}/shares";
const CHANGE: &str = "PUT /folders/{folderId}/shares/{shareId}";
const TAKE: &str = "DELETE /folders/{folderId}/shares/{shareId}";

pub(super) async fn lives(scene: &mut Scene) {
    let nowhere = json!({ "name": "In", "parentId": NOTHING });
    scene.refused(Who::Admin, 422, "FOLDER_UNKNOWN", CREATE, Call::of(nowhere)).await;
    let mut deepest = make_folder(scene, "1", None).await;
    for level in 2..=8 {
        deepest = make_folder(scene, &level.to_string(), Some(&deepest)).await;
    }
    let ninth = json!({ "name": "9", "parentId": deepest });
    scene.refused(Who::Admin, 422, "FOLDER_TOO_DEEP", CREATE, Call::of(ninth)).await;
    let renamed = Call::about(&deepest).with(json!({ "name": "Eight" }));
    scene.expect(Who::Admin, 200, "PUT /folders/{folderId}", renamed).await;
    let folder = scene.rows.folder.clone();
    let inner = make_folder(scene, "Inner", Some(&folder)).await;
    scene.refused(Who::Admin, 409, "FOLDER_NOT_EMPTY", DELETE, Call::about(&folder)).await;
    let share = json!({ "memberId": scene.alice_member, "role": "viewer" });
    let share = id(&scene.expect(Who::Admin, 201, SHARE, Call::about(&inner).with(share)).await);
    set_changing(scene, &share, Some("editor")).await;
    scene.refused(Who::Admin, 409, "CONFLICT", DELETE, Call::about(&inner)).await;
    set_changing(scene, &share, None).await;
    scene.expect(Who::Admin, 200, DELETE, Call::about(&inner)).await;
    let cycle = Call::about(&deepest).with(json!({ "parentId": deepest }));
    scene.refused(Who::Admin, 422, "FOLDER_CYCLE", MOVE, cycle).await;
    let around = make_folder(scene, "Around", None).await;
    let add =
        "INSERT INTO docs.folders(id, company_id, name, parent_id, owner_kc_sub, owner_member_id, state)";
    for (count, status, word, operation, call) in [
        (2_000, 409, "FOLDER_TREE_TOO_LARGE", MOVE, Call::about(&around).with(json!({ "parentId": folder }))),
        (5_000, 422, "TOO_MANY_FOLDERS", CREATE, Call::of(json!({ "name": "More" }))),
    ] {
        scene
            .execute(format!(
                "{add} SELECT gen_random_uuid(), company_id, 'Added', id, owner_kc_sub, owner_member_id, 'active'
                   FROM docs.folders, generate_series(1, {count}) WHERE id = '{around}'"
            ))
            .await;
        scene.refused(Who::Admin, status, word, operation, call).await;
        scene.execute("DELETE FROM docs.folders WHERE name = 'Added'".to_owned()).await;
    }
    let deep = Call::about(&around).with(json!({ "parentId": deepest }));
    scene.refused(Who::Admin, 422, "FOLDER_TOO_DEEP", MOVE, deep).await;
}

pub(super) async fn moves(scene: &mut Scene) {
    let document = make_document(scene, "Moved").await;
    let folder = make_folder(scene, "Moved", None).await;
    let places = [make_folder(scene, "Here", None).await, make_folder(scene, "There", None).await];
    for (operation, child, field) in [(MOVE_DOCUMENT, &document, "folderId"), (MOVE, &folder, "parentId")] {
        let to = |place: &str| Call::about(child).with(json!({ field: place }));
        scene.refused(Who::Admin, 422, "FOLDER_UNKNOWN", operation, to(NOTHING)).await;
        scene.expect(Who::Admin, 200, operation, to(&places[0])).await;
        let set = |state: &str, next: &str| {
            format!(
                "UPDATE docs.placements SET state = '{state}', next_parent_id = {next}, attempts = 1
                 WHERE document_id = '{child}' OR folder_id = '{child}'"
            )
        };
        let other = make_folder(scene, "Other", None).await;
        scene.execute(set("exchanging", &format!("'{other}'"))).await;
        scene.refused(Who::Admin, 409, "CONFLICT", operation, to(&places[1])).await;
        scene.execute(set("pending", "NULL")).await;
        scene.refused(Who::Admin, 409, "MOVE_IN_PROGRESS", operation, to(&places[1])).await;
        scene.execute(set("active", "NULL")).await;
        scene.expect(Who::Admin, 200, operation, to(&places[1])).await;
    }
}

pub(super) async fn shares(scene: &mut Scene) {
    let folder = make_folder(scene, "Shared", None).await;
    wrong_principals(scene, SHARE, "folders", &folder).await;
    let member = scene.alice_member.clone();
    let alice = || Call::about(&folder).with(json!({ "memberId": member, "role": "viewer" }));
    let share = id(&scene.expect(Who::Admin, 201, SHARE, alice()).await);
    scene.refused(Who::Admin, 409, "SHARE_EXISTS", SHARE, alice()).await;
    let role = |role: &str| two(&folder, &share).with(json!({ "role": role }));
    scene.expect(Who::Admin, 200, CHANGE, role("editor")).await;
    set_changing(scene, &share, Some("viewer")).await;
    scene.expect(Who::Admin, 200, CHANGE, role("commenter")).await;
    scene.execute(format!("UPDATE docs.shares SET state = 'revoking' WHERE id = '{share}'")).await;
    scene.refused(Who::Admin, 409, "CONFLICT", CHANGE, role("viewer")).await;
    scene.execute(format!("UPDATE docs.shares SET state = 'active' WHERE id = '{share}'")).await;
    taken_while_it_changes(scene, TAKE, &folder, &share).await;
    scene.expect(Who::Alice, 200, TAKE, two(&folder, &share)).await;
}
