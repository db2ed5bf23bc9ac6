//! Documents and folders for the calls. They belong to the superadmin, because an administrator alone may not read.

use serde_json::{Value, json};

use crate::module_scene::{Call, Module, Who, id};

pub(super) type Scene = crate::module_scene::Scene<Docs>;

/// Ids of the rows that every test has.
#[derive(Default)]
pub(super) struct Docs {
    pub(super) document: String,
    pub(super) share: String,
    pub(super) comment: String,
    /// Alice's share of the document.
    pub(super) request: String,
    pub(super) folder: String,
    pub(super) folder_share: String,
}

impl Module for Docs {
    const KEY: &'static str = "docs";
    const DOCUMENT: &'static str = include_str!("../../../modules/docs/openapi.json");
    const READ: &'static str = "GET /documents/{documentId}";

    async fn prepare(scene: &mut Scene) {
        scene.rows.document = make_document(scene, "Plan").await;
        scene.rows.folder = make_folder(scene, "Policies", None).await;
        let alice = json!({ "memberId": scene.alice_member, "role": "viewer" });
        let shared = Call::about(&scene.rows.document).with(alice.clone());
        let share = scene.expect(Who::Admin, 201, "POST /documents/{documentId}/shares", shared).await;
        scene.rows.share = id(&share);
        let shared = Call::about(&scene.rows.folder).with(alice);
        let share = scene.expect(Who::Admin, 201, "POST /folders/{folderId}/shares", shared).await;
        scene.rows.folder_share = id(&share);
        let comment = Call::about(&scene.rows.document).with(json!({ "body": "Why?" }));
        let comment = scene.expect(Who::Admin, 201, "POST /documents/{documentId}/comments", comment).await;
        scene.rows.comment = id(&comment);
        let request = Call::about(&scene.rows.document).with(json!({ "role": "editor" }));
        let request =
            scene.expect(Who::Alice, 201, "POST /documents/{documentId}/access-requests", request).await;
        scene.rows.request = id(&request);
    }

    fn sample(scene: &Scene, operation: &str) -> Call {
        let rows = &scene.rows;
        let (_, path) = operation.split_once(' ').expect("a method and a path");
        let of = |name: &str| match name {
            "{documentId}" => Some(rows.document.clone()),
            "{folderId}" => Some(rows.folder.clone()),
            "{shareId}" if path.starts_with("/folders") => Some(rows.folder_share.clone()),
            "{shareId}" => Some(rows.share.clone()),
            "{commentId}" => Some(rows.comment.clone()),
            "{accessRequestId}" => Some(rows.request.clone()),
            "{version}" => Some("1".to_owned()),
            _ => None,
        };
        let ids = path.split('/').filter_map(of).collect();
        Call { ids, body: body(scene, operation), ..Call::default() }
    }

    fn wrong_values() -> Vec<(&'static str, Call)> {
        vec![
            ("GET /documents", Call::asking("?view=ours")),
            ("POST /documents", Call::of(json!({}))),
            ("GET /folders", Call::asking("?parentId=x")),
            ("POST /folders", Call::of(json!({ "name": "" }))),
        ]
    }
}

/// The body of a sample, if the operation takes one.
fn body(scene: &Scene, operation: &str) -> Option<Value> {
    let member = json!({ "memberId": scene.admin_member, "role": "viewer" });
    Some(match operation {
        "POST /documents" => json!({ "title": "Sample" }),
        "PUT /documents/{documentId}" => json!({ "title": "Plan", "baseVersion": 1 }),
        "POST /documents/{documentId}/move" => json!({ "folderId": null }),
        "POST /documents/{documentId}/shares" | "POST /folders/{folderId}/shares" => member,
        "PUT /documents/{documentId}/shares/{shareId}" | "PUT /folders/{folderId}/shares/{shareId}" => {
            json!({ "role": "viewer" })
        }
        "POST /documents/{documentId}/duplicate" | "PUT /documents/{documentId}/access" => json!({}),
        "POST /documents/{documentId}/transfer" => json!({ "memberId": scene.admin_member }),
        "POST /documents/{documentId}/comments" => json!({ "body": "Sample" }),
        "POST /documents/{documentId}/access-requests" => json!({ "role": "viewer" }),
        "POST /folders" => json!({ "name": "Sample" }),
        "PUT /folders/{folderId}" => json!({ "name": "Policies" }),
        "POST /folders/{folderId}/move" => json!({ "parentId": null }),
        _ => return None,
    })
}

/// Creates a document of the superadmin's.
pub(super) async fn make_document(scene: &mut Scene, title: &str) -> String {
    let call = Call::of(json!({ "title": title, "body": "text" }));
    id(&scene.expect(Who::Admin, 201, "POST /documents", call).await)
}

/// Creates a folder of the superadmin's.
pub(super) async fn make_folder(scene: &mut Scene, name: &str, parent: Option<&str>) -> String {
    let call = Call::of(json!({ "name": name, "parentId": parent }));
    id(&scene.expect(Who::Admin, 201, "POST /folders", call).await)
}

/// Moves a document that is not open to the company into the trash, or out of it.
pub(super) async fn set_trashed(scene: &Scene, document: &str, trashed: bool) {
    let (state, at, by) = if trashed { ("trashed", "now()", 1) } else { ("active", "NULL", -1) };
    scene
        .execute(format!(
            "WITH moved AS (
               UPDATE docs.documents SET state = '{state}', trashed_at = {at}
               WHERE id = '{document}' AND state <> '{state}' RETURNING company_id)
             UPDATE docs.document_counts c SET active = active - ({by}), trashed = trashed + ({by})
             FROM moved WHERE c.company_id = moved.company_id"
        ))
        .await;
}
