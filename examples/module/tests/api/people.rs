//! Who may do what, under the base model and the module's own types.

use serde_json::json;
use testkit::{Holder, Person, World};

use crate::start;

#[tokio::test]
async fn a_task_is_its_owners_and_the_administrators_of_its_company() {
    let world = World::around(start().await, example_tasks::BUNDLE.fragment);
    let [ann, ben, eve, guard] = ["ann", "ben", "eve", "guard"].map(|name| world.person(name));
    world.grant("admin", Holder::Group(world.group("Board", &[&eve])));
    world.grant("admin", Holder::Position(world.position("Front desk", Some(&guard))));
    let body = json!({ "title": "Repair the printer" });
    let made = world.ask(&ann, "POST", "/tasks", Some(body.clone())).await;
    let tail = format!("/tasks/{}", made.data()["id"].as_str().unwrap_or_default());
    let statuses = async |who: &Person| {
        let read = world.ask(who, "GET", &tail, None).await;
        let replaced = world.ask(who, "PUT", &tail, Some(body.clone())).await;
        let reason = read.body["error"]["details"]["reason"].as_str().unwrap_or_default().to_owned();
        (read.status, replaced.status, reason)
    };
    let allowed = || (200, 200, String::new());
    let denied = |reason: &str| (403, 403, reason.to_owned());
    for administrator in [&eve, &guard] {
        assert_eq!(statuses(administrator).await, allowed());
        assert_eq!(world.ask(administrator, "DELETE", &tail, None).await.status, 403, "not the owner");
    }
    assert_eq!(statuses(&ann).await, allowed());
    assert_eq!(statuses(&ben).await, denied("ENGINE_DENIED"));
    for outsider in [world.stranger("mallory"), world.operator("root")] {
        assert_eq!(statuses(&outsider).await, denied("COMPANY_MEMBERSHIP_REQUIRED"));
    }
    let elsewhere = world.join(&ann, world.company());
    assert_eq!(statuses(&elsewhere).await, (404, 404, String::new()), "unknown in another company");
    world.activate(&ann, false);
    assert_eq!(statuses(&ann).await, denied("COMPANY_ACCESS_BLOCKED"));
    world.activate(&ann, true);
    assert_eq!(world.ask(&ann, "DELETE", &tail, None).await.status, 200);
    assert!(world.tuples.all().is_empty());
}
