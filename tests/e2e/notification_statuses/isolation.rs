//! Ids of another company give no access.

use serde_json::json;

use super::scene::{BLOCKED, Notification, Scene, dead_delivery};
use crate::module_scene::Call;
use crate::module_scene::isolation::{self, Isolated, Theirs};

#[tokio::test]
async fn every_id_of_another_company_leads_nowhere() {
    let mut scene = Scene::start("notification-isolation").await;
    isolation::check(&mut scene).await;
}

impl Isolated for Notification {
    /// A webhook with a secret, a dead delivery and its health, a channel with a subscription, and messages in both.
    async fn make(theirs: &Theirs) -> Vec<String> {
        let (admin, bob) = (&theirs.admin, &theirs.bob);
        let made = async |tail: &str, body| theirs.made::<Self>(admin, "POST", tail, body).await;
        let hook = json!({ "key": "hook", "label": "l", "kind": "webhook", "target": BLOCKED });
        let hook = made("/channels", hook).await;
        let news = made("/channels", json!({ "key": "news", "label": "l", "kind": "in_app" })).await;
        let text = |channel: &str| json!({ "channelId": channel, "subjectLine": "s", "body": "b" });
        let sent = made("/messages", text(&hook)).await;
        let told = made("/messages", text(&news)).await;
        let email = json!({ "email": "bob@example.com" });
        theirs.made::<Self>(bob, "PUT", &format!("/channels/{news}/subscription"), email).await;
        theirs.made::<Self>(bob, "POST", &format!("/messages/{told}/read"), json!({})).await;
        let delivery = dead_delivery(admin, &theirs.company, &hook).await;
        vec![hook, news, sent, told, delivery]
    }

    fn calls(scene: &Scene, operation: &str, ids: &[String]) -> Vec<Call> {
        let sample = scene.sample(operation);
        let each = |call: &dyn Fn(&str) -> Call| ids.iter().map(|id| call(id)).collect::<Vec<_>>();
        let since = "2026-01-01T00:00:00Z";
        match operation {
            _ if operation.contains("Id}") => each(&|id| Call { ids: vec![id.to_owned()], ..sample.clone() }),
            "GET /deliveries" => each(&|id| Call::asking(&format!("?channelId={id}"))),
            "POST /messages" => each(&super::scene::text),
            "POST /deliveries/replay" => each(&|id| Call::of(json!({ "channelId": id, "since": since }))),
            "POST /channels" | "POST /messages/read-all" => vec![Call::of(json!({}))],
            _ => vec![sample],
        }
    }

    /// An unknown id is 404, and 422 as the channel of a message. Operations that take no id answer for the own
    /// company.
    fn expected(operation: &str) -> (u16, &'static str) {
        match operation {
            "POST /messages" => (422, "CHANNEL_UNKNOWN"),
            "POST /deliveries/replay" => (404, "NOT_FOUND"),
            "POST /channels" | "POST /messages/read-all" => (400, "VALIDATION_ERROR"),
            _ if operation.contains("Id}") => (404, "NOT_FOUND"),
            _ => (200, ""),
        }
    }
}
