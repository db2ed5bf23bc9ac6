//! Which entries of a document's history each caller sees.

use serde_json::{Value, json};

use crate::properties::sweep;
use crate::world::{Fault, World, id};

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
async fn what_managers_do_to_the_folders_around_a_document_is_in_its_history() {
    let world = World::of(6).await;
    let outer = world.folder(1, "Outer", None).await;
    let inner = world.folder(1, "Inner", Some(&outer)).await;
    let theirs = world.folder(0, "Administrator's", None).await;
    let body = json!({ "title": "Plan", "body": "text", "folderId": inner });
    let document = id(&world.ask(1, "POST", "/documents", Some(body)).await);
    id(&world.share(1, &document, 2, "viewer").await);
    assert_eq!(world.on(0, "GET", &document, "", None).await.status, 403, "control: a manager does not read");
    let path = |folder: &str, rest: &str| format!("/folders/{folder}{rest}");
    let done = async |who: usize, method: &str, path: &str, body: Value| {
        let reply = world.ask(who, method, path, Some(body).filter(|body| !body.is_null())).await;
        assert!(matches!(reply.status, 200 | 201), "{}", reply.text);
        reply
    };
    let member = |who: usize| world.people[who].member;
    // The history leaves out what the folder's own owner shares, and renames by anyone.
    done(1, "POST", &path(&outer, "/shares"), json!({ "memberId": member(3), "role": "editor" })).await;
    done(3, "PUT", &path(&inner, ""), json!({ "name": "Within" })).await;
    let before = ["document.created", "share.created"];
    assert_eq!(actions(&history(&world, 1, &document).await), before, "control");
    done(0, "POST", &path(&outer, "/move"), json!({ "parentId": theirs })).await;
    assert_eq!(world.on(0, "GET", &document, "", None).await.status, 200, "the manager has a right now");
    done(0, "POST", &path(&outer, "/move"), json!({ "parentId": null })).await;
    let body = json!({ "memberId": member(4), "role": "viewer" });
    let share = id(&done(0, "POST", &path(&inner, "/shares"), body).await);
    done(0, "PUT", &path(&inner, &format!("/shares/{share}")), json!({ "role": "editor" })).await;
    done(0, "DELETE", &path(&inner, &format!("/shares/{share}")), Value::Null).await;
    let told = [
        (&outer, "folder.moved"),
        (&outer, "folder.moved"),
        (&inner, "share.created"),
        (&inner, "share.role_changed"),
        (&inner, "share.deleted"),
    ];
    for who in [1, 3] {
        let entries = history(&world, who, &document).await;
        let (of_document, of_folders) = entries.split_at(before.len());
        assert_eq!(actions(of_document), before, "{who}");
        let seen: Vec<Value> =
            of_folders.iter().map(|entry| json!([entry["subject"], entry["action"]])).collect();
        let expected = told.map(|(folder, action)| json!([format!("folder:{folder}"), action]));
        assert_eq!(seen, expected, "{who}");
        let actor = &world.people[0].subject;
        let is_theirs = |entry: &Value| entry["actor"] == *actor && entry["payload"]["asManager"] == true;
        assert!(of_folders.iter().all(is_theirs), "{who}: {of_folders:?}");
    }
    assert_eq!(actions(&history(&world, 2, &document).await), before, "a viewer is not told about folders");
    // Outside the folders, their history is not the document's.
    let out = world.on(1, "POST", &document, "/move", Some(json!({ "folderId": null }))).await;
    assert_eq!(out.status, 200, "{}", out.text);
    let entries = history(&world, 1, &document).await;
    assert_eq!(actions(&entries), ["document.created", "share.created", "document.moved"]);
}

#[tokio::test]
async fn what_managers_do_is_in_the_history_when_a_sweep_finishes_it() {
    let world = World::of(4).await;
    let (folder, theirs) = (world.folder(1, "Mine", None).await, world.folder(0, "Theirs", None).await);
    let made = async |folder: Option<&str>| {
        let body = json!({ "title": "Plan", "folderId": folder });
        id(&world.ask(1, "POST", "/documents", Some(body)).await)
    };
    let (within, alone) = (made(Some(&folder)).await, made(None).await);
    let break_off = async |path: &str, body: Value| {
        world.fail(&[Fault::LostAfter]);
        let reply = world.ask(0, "POST", path, Some(body)).await;
        assert_eq!(reply.status, 503, "{}", reply.text);
        world.fail(&[]);
    };
    let share = json!({ "memberId": world.people[2].member, "role": "viewer" });
    break_off(&format!("/folders/{folder}/shares"), share).await;
    break_off(&format!("/folders/{folder}/move"), json!({ "parentId": theirs })).await;
    break_off(&format!("/documents/{alone}/move"), json!({ "folderId": theirs })).await;
    sweep(&world).await;
    let told = async |document: &str| {
        let entries = history(&world, 1, document).await;
        let entry = |entry: &Value| json!([entry["actor"], entry["action"], entry["payload"]["asManager"]]);
        let mut told: Vec<Value> = entries.iter().skip(1).map(entry).collect();
        told.sort_by_key(ToString::to_string);
        told
    };
    let by_sweep = |action: &str, marked: Value| json!(["system:two-store-sweep", action, marked]);
    let expected = [by_sweep("folder.moved", json!(true)), by_sweep("share.created", Value::Null)];
    assert_eq!(told(&within).await, expected);
    assert_eq!(told(&alone).await, [by_sweep("document.moved", json!(true))]);
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
