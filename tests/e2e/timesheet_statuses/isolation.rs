//! Ids of another company give no access.

use serde_json::{Value, json};

use super::scene::{Scene, Timesheet, monday};
use crate::module_scene::isolation::{self, Isolated, Theirs};
use crate::module_scene::{Call, NOTHING};

#[tokio::test]
async fn every_id_of_another_company_leads_nowhere() {
    let mut scene = Scene::start("timesheet-isolation").await;
    isolation::check(&mut scene).await;
}

impl Isolated for Timesheet {
    /// A project, an entry, a submission and an approver.
    async fn make(theirs: &Theirs) -> Vec<String> {
        let (admin, bob, [member, approver]) = (&theirs.admin, &theirs.bob, &theirs.members);
        let body = json!({ "code": "WEB", "name": "n" });
        let project = theirs.made::<Self>(admin, "POST", "/projects", body).await;
        let pair = json!({ "memberId": member, "approverMemberId": approver });
        theirs.made::<Self>(admin, "PUT", "/member-approvers", pair).await;
        let hours = json!({ "projectId": project, "entryDate": monday(-1), "realHours": 3 });
        let entry = theirs.made::<Self>(bob, "PUT", "/time-entries", hours).await;
        let week = json!({ "weekStart": monday(-1) });
        let submission = theirs.made::<Self>(bob, "POST", "/submissions", week).await;
        vec![project, entry, submission]
    }

    fn calls(scene: &Scene, operation: &str, ids: &[String]) -> Vec<Call> {
        let sample = scene.sample(operation);
        let each = |call: &dyn Fn(&str) -> Call| ids.iter().map(|id| call(id)).collect::<Vec<_>>();
        let day = monday(-2);
        match operation {
            _ if operation.contains("{projectId}") || operation.contains("{submissionId}") => {
                each(&|id| Call { ids: vec![id.to_owned()], ..sample.clone() })
            }
            "PUT /member-approvers" => {
                let pair = |member: &str, approver: &str| {
                    Call::of(json!({ "memberId": member, "approverMemberId": approver }))
                };
                let decided = each(&|id| pair(id, &scene.admin_member));
                let deciding = each(&|id| pair(&scene.alice_member, id));
                [decided, deciding].concat()
            }
            "PUT /time-entries" => {
                each(&|id| Call::of(json!({ "projectId": id, "entryDate": day, "realHours": 1 })))
            }
            "PUT /time-entries/week" => each(&|id| {
                let row = json!({ "projectId": id, "entryDate": day, "realHours": 1 });
                Call::of(json!({ "weekStart": day, "entries": [row] }))
            }),
            "POST /submissions/approve-batch" => {
                each(&|id| Call::of(json!({ "submissionIds": [id, NOTHING] })))
            }
            "POST /projects" | "POST /submissions" | "PUT /settings" => vec![Call::of(json!({}))],
            _ => vec![sample],
        }
    }

    /// An unknown id is 404 in a path and 422 in a body; a batch reports 404 for the entry. Operations that take no id
    /// answer for the own company.
    fn expected(operation: &str) -> (u16, &'static str) {
        match operation {
            "PUT /member-approvers" => (422, "MEMBER_UNKNOWN"),
            "PUT /time-entries" | "PUT /time-entries/week" => (422, "PROJECT_UNKNOWN"),
            "POST /projects" | "POST /submissions" => (400, "VALIDATION_ERROR"),
            _ if operation.contains("{projectId}") || operation.contains("{submissionId}") => {
                (404, "NOT_FOUND")
            }
            _ => (200, ""),
        }
    }

    /// A batch repeats the ids that it was sent, each as not found.
    fn names_only_what_was_sent(operation: &str, answer: &Value) -> bool {
        let items = answer["data"]["items"].as_array();
        operation == "POST /submissions/approve-batch"
            && items.is_some_and(|items| items.iter().all(|item| item["error"]["code"] == "NOT_FOUND"))
    }
}
