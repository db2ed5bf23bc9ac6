//! Ids of another company give no access.

use serde_json::json;

use super::scene::{Docs, Scene};
use crate::module_scene::Call;
use crate::module_scene::isolation::{self, Isolated, Theirs};

#[tokio::test]
async fn every_id_of_another_company_leads_nowhere() {
    let mut scene = Scene::start("docs-isolation").await;
    isolation::check(&mut scene).await;
}

impl Isolated for Docs {
    /// A document with a share, a comment and a request, and a folder with a share.
    async fn make(theirs: &Theirs) -> Vec<String> {
        let (bob, boss) = (&theirs.bob, &theirs.admin);
        let document = theirs.made::<Self>(bob, "POST", "/documents", json!({ "title": "Theirs" })).await;
        let folder = theirs.made::<Self>(bob, "POST", "/folders", json!({ "name": "Theirs" })).await;
        let comment = format!("/documents/{document}/comments");
        let comment = theirs.made::<Self>(bob, "POST", &comment, json!({ "body": "x" })).await;
        let copy = format!("/documents/{document}/duplicate");
        let copy = theirs.made::<Self>(bob, "POST", &copy, json!({ "folderId": folder })).await;
        let access = format!("/documents/{document}/access");
        theirs.made::<Self>(boss, "PUT", &access, json!({ "editorsCanShare": false })).await;
        vec![document, folder, comment, copy]
    }

    fn calls(scene: &Scene, operation: &str, ids: &[String]) -> Vec<Call> {
        let sample = scene.sample(operation);
        let each = |call: &dyn Fn(&str) -> Call| ids.iter().map(|id| call(id)).collect::<Vec<_>>();
        match operation {
            "POST /documents" => each(&|id| Call::of(json!({ "title": "In", "folderId": id }))),
            "POST /folders" => each(&|id| Call::of(json!({ "name": "In", "parentId": id }))),
            "GET /documents" => each(&|id| Call::asking(&format!("?view=visible&folderId={id}"))),
            "GET /folders" => each(&|id| Call::asking(&format!("?parentId={id}"))),
            _ => each(&|id| Call {
                ids: [vec![id.to_owned()], sample.ids[1..].to_vec()].concat(),
                ..sample.clone()
            }),
        }
    }

    fn expected(operation: &str) -> (u16, &'static str) {
        match operation {
            "GET /documents" | "GET /folders" => (200, ""),
            "POST /documents" | "POST /folders" => (422, "FOLDER_UNKNOWN"),
            _ => (404, "NOT_FOUND"),
        }
    }

    /// A document or folder is looked up before the decision, so an id of another kind is unknown under any path.
    fn strangers(operation: &str) -> &'static [(u16, &'static str)] {
        match operation {
            "GET /documents" | "GET /folders" | "POST /documents" | "POST /folders" => {
                &[(403, "COMPANY_MEMBERSHIP_REQUIRED")]
            }
            _ => &[(403, "COMPANY_MEMBERSHIP_REQUIRED"), (404, "NOT_FOUND")],
        }
    }
}
