//! What the tests of more than one resource need.

use serde_json::{Value, json};
use testkit::{ModuleApi, Reply};
use uuid::Uuid;

use crate::start;

/// The module and three active members of its company; the caller is the first.
pub(crate) async fn start_with_members() -> (ModuleApi, [Uuid; 3]) {
    let module = start().await;
    let members = [Uuid::now_v7(), Uuid::now_v7(), Uuid::now_v7()];
    module.member(members[0], &[], &[]);
    know_members(&module, members.to_vec(), vec![]);
    (module, members)
}

/// From now on org knows these members of the company and nobody else.
pub(crate) fn know_members(module: &ModuleApi, active: Vec<Uuid>, inactive: Vec<Uuid>) {
    let path = format!("/internal/org/companies/{}/lookup", module.company);
    module.org.answer_with("POST", &path, move |request| {
        let wanted = |id: &Uuid| {
            request.body["memberIds"].as_array().is_some_and(|wanted| wanted.contains(&json!(id)))
        };
        let shown = |id: &Uuid, active: bool| json!({ "id": id, "displayName": "x", "email": null, "isActive": active, "kcSub": null });
        let known = active.iter().map(|id| (id, true)).chain(inactive.iter().map(|id| (id, false)));
        let members: Vec<Value> =
            known.filter(|(id, _)| wanted(id)).map(|(id, active)| shown(id, active)).collect();
        (200, json!({ "data": { "members": members, "positions": [], "groups": [] } }))
    });
}

/// `details.reason` of a refusal.
pub(crate) fn reason(reply: &Reply) -> &str {
    reply.body["error"]["details"]["reason"].as_str().unwrap_or_default()
}
