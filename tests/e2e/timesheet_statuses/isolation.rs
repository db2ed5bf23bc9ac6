//! Companies do not see each other: every operation of the document is called with every id of another company, through
//! the edge. Whoever is no member there gets 403 under its path; under the own path its ids are unknown ones, even to
//! who holds every relation, and nothing of either company changes.

use serde_json::{Value, json};

use super::scene::{Call, NOTHING, Scene, Who, id, monday};
use crate::harness::Api;
use crate::harness::login::subject;
use crate::tour::{create_company, create_member, link};

#[tokio::test]
async fn every_id_of_another_company_leads_nowhere() {
    let mut scene = Scene::start("timesheet-isolation").await;
    let theirs = Theirs::make(&scene).await;
    let before = scene.platform.contents("timesheet").await;
    let (mut refused, mut unknown) = (0, 0);
    for (operation, _) in scene.operations() {
        for call in theirs.calls(&scene, &operation) {
            let company = theirs.company.clone();
            let stranger = (403, "COMPANY_MEMBERSHIP_REQUIRED");
            scene.called_at(&company, Who::Alice, stranger, &operation, call.clone()).await;
            refused += 1;
            let own = scene.company.clone();
            let (status, word) = expected(&operation);
            let answer = scene.called_at(&own, Who::Admin, (status, word), &operation, call).await;
            theirs.is_not_told_by(&operation, &answer);
            unknown += 1;
        }
    }
    assert_eq!(scene.platform.contents("timesheet").await, before, "nothing was changed");
    println!(
        "{refused} calls under the other company's path refused; {unknown} under the own found nothing of it"
    );
}

/// What comes of another company's id: an unknown one is 404 in a path and 422 in a body; a batch says 404 in its place.
/// Operations that take no id answer for the own company: what would write there is sent a body that writes nothing.
fn expected(operation: &str) -> (u16, &'static str) {
    match operation {
        "PUT /member-approvers" => (422, "MEMBER_UNKNOWN"),
        "PUT /time-entries" | "PUT /time-entries/week" => (422, "PROJECT_UNKNOWN"),
        "POST /projects" | "POST /submissions" => (400, "VALIDATION_ERROR"),
        _ if operation.contains("{projectId}") || operation.contains("{submissionId}") => (404, "NOT_FOUND"),
        _ => (200, ""),
    }
}

/// Another company and the ids of all it has.
struct Theirs {
    company: String,
    ids: Vec<String>,
}

impl Theirs {
    /// Bob's company: two members, a project, an entry, a submission, an approver.
    async fn make(scene: &Scene) -> Self {
        let admin = &scene.admin;
        let token = scene.platform.token("bob").await;
        let bob = scene.platform.api().with_token(&token);
        let company = create_company(admin, "GLOBEX").await;
        let member = create_member(admin, &company, "BOB").await;
        let approver = create_member(admin, &company, "BOSS").await;
        link(admin, &member, &subject(&token)).await;
        let base = format!("/api/timesheet/v1/companies/{company}");
        let project =
            made(admin, "POST", &format!("{base}/projects"), json!({ "code": "WEB", "name": "n" })).await;
        let pair = json!({ "memberId": member, "approverMemberId": approver });
        made(admin, "PUT", &format!("{base}/member-approvers"), pair).await;
        let hours = json!({ "projectId": project, "entryDate": monday(-1), "realHours": 3 });
        let entry = made(&bob, "PUT", &format!("{base}/time-entries"), hours).await;
        let week = json!({ "weekStart": monday(-1) });
        let submission = made(&bob, "POST", &format!("{base}/submissions"), week).await;
        Self { company, ids: vec![member, approver, project, entry, submission] }
    }

    /// The operation with each id where it takes one; without one, as it is.
    fn calls(&self, scene: &Scene, operation: &str) -> Vec<Call> {
        let sample = scene.sample(operation);
        let each = |call: &dyn Fn(&str) -> Call| self.ids.iter().map(|id| call(id)).collect::<Vec<_>>();
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

    /// A success tells nothing of the company; a batch names the ids that it was sent, each as not found.
    fn is_not_told_by(&self, operation: &str, answer: &Value) {
        if operation == "POST /submissions/approve-batch" {
            let items = answer["data"]["items"].as_array().expect("a list");
            assert!(items.iter().all(|item| item["error"]["code"] == "NOT_FOUND"), "{answer}");
        } else if answer["data"].is_object() {
            let text = answer.to_string();
            let told = self.ids.iter().chain([&self.company]).find(|id| text.contains(id.as_str()));
            assert_eq!(told, None, "{operation}: {answer}");
        }
    }
}

/// The id of what this call makes, or nothing where what it makes has none.
async fn made(api: &Api, method: &str, path: &str, body: Value) -> String {
    let reply = api.send(method.parse().expect("a method"), path, Some(body)).await;
    assert!(reply.status.is_success(), "{path}: {}", reply.body);
    let data = &reply.body["data"];
    if data["id"].is_null() { String::new() } else { id(data) }
}
