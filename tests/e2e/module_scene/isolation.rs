//! Companies do not see each other: every operation of a module's document is called with every id of another company,
//! through the gateway. A caller who is not a member there gets 403 under its path. Under the caller's own path those
//! ids are unknown, even to a caller who holds every relation, and nothing in either company changes.

use serde_json::Value;

use super::{Call, Module, Scene, Who, word};
use crate::harness::Api;
use crate::harness::login::subject;
use crate::tour::{create_company, create_member, link};

/// What the check needs to know about a module.
pub(crate) trait Isolated: Module {
    /// Creates rows of every kind in the other company; returns their ids.
    async fn make(theirs: &Theirs) -> Vec<String>;

    /// Waits until the created rows no longer change on their own.
    async fn settle(_scene: &Scene<Self>) {}

    /// The operation with each of these ids if it takes one; otherwise as it is. An operation that would write in the
    /// own company gets a body that writes nothing.
    fn calls(scene: &Scene<Self>, operation: &str, ids: &[String]) -> Vec<Call>;

    /// The result of an unknown id: the status, and the word that identifies the refusal.
    fn expected(operation: &str) -> (u16, &'static str);

    /// The result of a call under the other company's path by a non-member: one of these.
    fn strangers(_operation: &str) -> &'static [(u16, &'static str)] {
        &[(403, "COMPANY_MEMBERSHIP_REQUIRED")]
    }

    /// Whether an operation that repeats the ids it was sent reveals nothing more about them.
    fn names_only_what_was_sent(_operation: &str, _answer: &Value) -> bool {
        false
    }
}

/// Another company, of which Bob is a member.
pub(crate) struct Theirs {
    pub(crate) company: String,
    pub(crate) admin: Api,
    pub(crate) bob: Api,
    /// Bob's member id and another one.
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

    /// The id of what this call creates, or an empty string if it has none.
    pub(crate) async fn made<M: Module>(&self, api: &Api, method: &str, tail: &str, body: Value) -> String {
        let path = format!("/api/{}/v1/companies/{}{tail}", M::KEY, self.company);
        let reply = api.send(method.parse().expect("a method"), &path, Some(body)).await;
        assert!(reply.status.is_success(), "{path}: {}", reply.body);
        reply.body["data"]["id"].as_str().unwrap_or_default().to_owned()
    }
}

/// Checks that a success reveals nothing about the other company.
fn is_not_told(company: &str, ids: &[String], operation: &str, answer: &Value) {
    if answer["data"].is_object() {
        let text = answer.to_string();
        let told = ids.iter().map(String::as_str).chain([company]).find(|id| text.contains(id));
        assert_eq!(told, None, "{operation}: {answer}");
    }
}
