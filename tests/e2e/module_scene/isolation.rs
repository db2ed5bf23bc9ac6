//! Companies do not see each other: every operation of a module's document is called with every id of another company,
//! through the edge. A caller who is no member there gets 403 under its path; under the caller's own path its ids are
//! unknown ones, even to a caller who holds every relation, and nothing of either company changes.

use serde_json::Value;

use super::{Call, Module, Scene, Who, word};
use crate::harness::Api;
use crate::harness::login::subject;
use crate::tour::{create_company, create_member, link};

/// What the check has to know of a module.
pub(crate) trait Isolated: Module {
    /// Makes rows of every kind in the other company; gives their ids.
    async fn make(theirs: &Theirs) -> Vec<String>;

    /// Waits until nothing that was made changes by itself any more.
    async fn settle(_scene: &Scene<Self>) {}

    /// The operation with each of these ids where it takes one; without one, as it is. What would write for the own
    /// company is sent a body that writes nothing.
    fn calls(scene: &Scene<Self>, operation: &str, ids: &[String]) -> Vec<Call>;

    /// What comes of an unknown id: the status, and the word that tells the refusal from others.
    fn expected(operation: &str) -> (u16, &'static str);

    /// What comes of a call under the other company's path by who is no member there: one of these.
    fn strangers(_operation: &str) -> &'static [(u16, &'static str)] {
        &[(403, "COMPANY_MEMBERSHIP_REQUIRED")]
    }

    /// Whether the answer to an operation that names the ids it was sent says nothing more of them.
    fn names_only_what_was_sent(_operation: &str, _answer: &Value) -> bool {
        false
    }
}

/// Another company, of which Bob is a member.
pub(crate) struct Theirs {
    pub(crate) company: String,
    pub(crate) admin: Api,
    pub(crate) bob: Api,
    /// Bob's member id and another's.
    pub(crate) members: [String; 2],
}

pub(crate) async fn check<M: Isolated>(scene: &mut Scene<M>) {
    let theirs = Theirs::make(scene).await;
    let ids = [theirs.members.to_vec(), M::make(&theirs).await].concat();
    M::settle(scene).await;
    let before = scene.platform.contents(M::KEY).await;
    let (mut refused, mut unknown) = (0, 0);
    for (operation, _) in scene.operations() {
        for call in M::calls(scene, &operation, &ids) {
            let reply = scene.answer(&theirs.company, Who::Alice, &operation, call.clone()).await;
            let refusal = (reply.status.as_u16(), word(&reply.body["error"]));
            let allowed = M::strangers(&operation);
            let fits =
                allowed.iter().any(|(status, word)| (*status, *word) == (refusal.0, refusal.1.as_str()));
            assert!(fits, "{operation} {call:?}: {}", reply.body);
            refused += 1;
            let own = scene.company.clone();
            let answer = scene.called_at(&own, Who::Admin, M::expected(&operation), &operation, call).await;
            if !M::names_only_what_was_sent(&operation, &answer) {
                is_not_told(&theirs.company, &ids, &operation, &answer);
            }
            unknown += 1;
        }
    }
    assert_eq!(scene.platform.contents(M::KEY).await, before, "nothing was changed");
    println!(
        "{refused} calls under the other company's path refused; {unknown} under the own found nothing of it"
    );
}

impl Theirs {
    async fn make<M: Module>(scene: &Scene<M>) -> Self {
        let admin = scene.admin.clone();
        let token = scene.platform.token("bob").await;
        let bob = scene.platform.api().with_token(&token);
        let company = create_company(&admin, "GLOBEX").await;
        let members =
            [create_member(&admin, &company, "BOB").await, create_member(&admin, &company, "BOSS").await];
        link(&admin, &members[0], &subject(&token)).await;
        Self { company, admin, bob, members }
    }

    /// The id of what this call makes, or nothing where what it makes has none.
    pub(crate) async fn made<M: Module>(&self, api: &Api, method: &str, tail: &str, body: Value) -> String {
        let path = format!("/api/{}/v1/companies/{}{tail}", M::KEY, self.company);
        let reply = api.send(method.parse().expect("a method"), &path, Some(body)).await;
        assert!(reply.status.is_success(), "{path}: {}", reply.body);
        reply.body["data"]["id"].as_str().unwrap_or_default().to_owned()
    }
}

/// A success tells nothing of the other company.
fn is_not_told(company: &str, ids: &[String], operation: &str, answer: &Value) {
    if answer["data"].is_object() {
        let text = answer.to_string();
        let told = ids.iter().map(String::as_str).chain([company]).find(|id| text.contains(id));
        assert_eq!(told, None, "{operation}: {answer}");
    }
}
