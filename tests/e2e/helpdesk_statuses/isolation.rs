//! Ids of another company give no access.

use serde_json::json;

use super::scene::{Helpdesk, Scene, make_group, make_position, notices_are_settled};
use crate::module_scene::Call;
use crate::module_scene::isolation::{self, Isolated, Theirs};

#[tokio::test]
async fn every_id_of_another_company_leads_nowhere() {
    let mut scene = Scene::start("helpdesk-isolation").await;
    isolation::check(&mut scene).await;
}

impl Isolated for Helpdesk {
    /// A ticket with a comment, a position, a group, and their bindings.
    async fn make(theirs: &Theirs) -> Vec<String> {
        let (admin, bob, [member, _]) = (&theirs.admin, &theirs.bob, &theirs.members);
        let body = json!({ "title": "Theirs", "description": "" });
        let ticket = theirs.made::<Self>(bob, "POST", "/tickets", body).await;
        let say = format!("/tickets/{ticket}/comments");
        let comment = theirs.made::<Self>(bob, "POST", &say, json!({ "body": "Theirs." })).await;
        let position = make_position(admin, &theirs.company, "THEIRS").await;
        let group = make_group(admin, &theirs.company, "THEIRS").await;
        let mut ids = vec![ticket, comment];
        for body in
            [json!({ "memberId": member }), json!({ "positionId": position }), json!({ "groupId": group })]
        {
            ids.push(theirs.made::<Self>(admin, "POST", "/bindings", body).await);
        }
        ids.extend([position, group]);
        ids
    }

    async fn settle(scene: &Scene) {
        notices_are_settled(scene).await;
    }

    fn calls(scene: &Scene, operation: &str, ids: &[String]) -> Vec<Call> {
        let sample = scene.sample(operation);
        let each = |call: &dyn Fn(&str) -> Call| ids.iter().map(|id| call(id)).collect::<Vec<_>>();
        match operation {
            _ if operation.contains('{') => each(&|id| Call { ids: vec![id.to_owned()], ..sample.clone() }),
            "POST /bindings" => ["memberId", "positionId", "groupId"]
                .iter()
                .flat_map(|name| each(&|id| Call::of(json!({ *name: id }))))
                .collect(),
            "GET /tickets/search" => each(&|id| Call::asking(&format!("?assignee={id}"))),
            "POST /tickets" | "PUT /settings" => vec![Call::of(json!({}))],
            _ => vec![sample],
        }
    }

    /// An unknown id is 404 in a path and 422 in a body. Operations that take no id answer for the own company.
    fn expected(operation: &str) -> (u16, &'static str) {
        match operation {
            "POST /bindings" => (422, "BINDING_SUBJECT_UNKNOWN"),
            "POST /tickets" => (400, "VALIDATION_ERROR"),
            _ if operation.contains('{') => (404, "NOT_FOUND"),
            _ => (200, ""),
        }
    }
}
