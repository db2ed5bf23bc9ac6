//! Which entries of a document's history each caller sees.

use serde_json::{Value, json};

use crate::world::{World, id};

async fn history(world: &World, who: usize, document: &str) -> Vec<Value> {
    let reply = world.on(who, "GET", document, "/history", None).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.data().as_array().expect("a list").clone()
}

fn actions(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["action"].as_str().expect("an action")).collect()
}

#[tokio::test]
async fn requests_for_access_and_folders_are_told_to_those_who_share_the_document_only() {
    let world = World::of(7).await;
    let (folder, secret) = (world.folder(1, "Team", None).await, world.folder(1, "Secret", None).await);
    let body = json!({ "title": "Plan", "body": "text", "folderId": folder });
    let document = id(&world.ask(1, "POST", "/documents", Some(body)).await);
    id(&world.share(1, &document, 2, "viewer").await);
    id(&world.share(1, &document, 3, "editor").await);
    id(&world.share(1, &document, 0, "viewer").await);
    let asks = json!({ "role": "viewer" });
    let wanted = id(&world.on(4, "POST", &document, "/access-requests", Some(asks)).await);
    let decline = format!("/access-requests/{wanted}/decline");
    assert_eq!(world.on(1, "POST", &document, &decline, None).await.status, 200);
    let asks = json!({ "role": "viewer" });
    let met = id(&world.on(5, "POST", &document, "/access-requests", Some(asks)).await);
    let accept = format!("/access-requests/{met}/accept");
    assert_eq!(world.on(1, "POST", &document, &accept, None).await.status, 200);
    for to in [json!(secret), Value::Null] {
        let moved = world.on(1, "POST", &document, "/move", Some(json!({ "folderId": to }))).await;
        assert_eq!(moved.status, 200, "{}", moved.text);
    }
    let all = [
        "document.created",
        "share.created",
        "share.created",
        "share.created",
        "access_request.created",
        "access_request.declined",
        "access_request.created",
        "access_request.accepted",
        "share.created",
        "document.moved",
        "document.moved",
    ];
    let told: Vec<&str> =
        all.iter().copied().filter(|action| !action.starts_with("access_request.")).collect();
    let set = async |body: Value| {
        assert_eq!(world.on(1, "PUT", &document, "/access", Some(body)).await.status, 200);
    };
    // The owner, an editor who shares, and a manager who also reads; a viewer.
    for who in [1, 3, 0] {
        let entries = history(&world, who, &document).await;
        assert_eq!(actions(&entries), all, "{who}");
        assert_eq!(entries[9]["payload"]["folderId"], json!({ "from": folder, "to": secret }), "{who}");
    }
    let entries = history(&world, 2, &document).await;
    assert_eq!(actions(&entries), told);
    let text = json!(entries).to_string();
    for hidden in [&folder, &secret, &world.people[4].member.to_string()] {
        assert!(!text.contains(hidden.as_str()), "{hidden} in {text}");
    }
    // An editor who may not share, and members who are viewers or editors by general access.
    set(json!({ "editorsCanShare": false })).await;
    assert_eq!(history(&world, 3, &document).await.len(), told.len() + 1);
    set(json!({ "editorsCanShare": true, "generalAccess": "company_view" })).await;
    assert_eq!(history(&world, 4, &document).await.len(), told.len() + 2);
    set(json!({ "generalAccess": "company_edit" })).await;
    assert_eq!(history(&world, 4, &document).await.len(), all.len() + 3);
}

#[tokio::test]
async fn requests_for_access_push_nothing_out_of_the_history_that_viewers_see() {
    let world = World::of(4).await;
    let folder = world.folder(1, "Team", None).await;
    let body = json!({ "title": "Plan", "body": "text", "folderId": folder });
    let document = id(&world.ask(1, "POST", "/documents", Some(body)).await);
    id(&world.share(1, &document, 2, "viewer").await);
    let company = world.module.company;
    world
        .module
        .execute(format!(
            "INSERT INTO audit.docs__events(company_id, actor, action, subject, payload)
             SELECT '{company}', 'subject-3', 'access_request.' || (ARRAY['created', 'declined', 'accepted'])[1 + g % 3],
               'document:{document}', '{{\"role\": \"viewer\"}}' FROM generate_series(1, 1100) g"
        ))
        .await;
    let entries = history(&world, 2, &document).await;
    assert_eq!(actions(&entries), ["document.created", "share.created"]);
    assert!(!json!(entries).to_string().contains(&folder), "the folder is not told to a viewer");
    let entries = history(&world, 1, &document).await;
    assert_eq!(entries.len(), 1000, "control: its owner sees the latest of all");
    assert!(actions(&entries).iter().all(|action| action.starts_with("access_request.")));
}
