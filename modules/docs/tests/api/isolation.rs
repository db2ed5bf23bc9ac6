//! Rows of one company do not exist for another, whatever rights the caller has in both.

use serde_json::json;
use uuid::Uuid;

use crate::world::{World, id};

#[tokio::test]
async fn nothing_of_one_company_is_there_under_another_one() {
    let world = World::of(4).await;
    let folder = world.folder(1, "Here", None).await;
    let body = json!({ "title": "Plan", "folderId": folder });
    let document = id(&world.ask(1, "POST", "/documents", Some(body)).await);
    let share = id(&world.share(1, &document, 2, "viewer").await);
    let comment = id(&world.on(1, "POST", &document, "/comments", Some(json!({ "body": "Why?" }))).await);
    world.module.decide(|_| true);
    let elsewhere = Uuid::now_v7();
    let context = json!({ "data": { "isMember": true, "isActive": true, "memberId": world.people[1].member,
        "displayName": "Person 1", "email": null, "positionIds": [], "groupIds": [] } });
    let path = format!("/internal/org/companies/{elsewhere}/members/by-kcsub/*");
    world.module.org.answer("GET", &path, 200, context);
    let before = world.module.contents().await;
    for (method, tail, body) in [
        ("GET", String::new(), None),
        ("PUT", String::new(), Some(json!({ "title": "x", "baseVersion": 1 }))),
        ("DELETE", String::new(), None),
        ("GET", "/versions/1".to_owned(), None),
        ("GET", "/history".to_owned(), None),
        ("DELETE", format!("/shares/{share}"), None),
        ("POST", format!("/comments/{comment}/resolve"), None),
        ("POST", "/duplicate".to_owned(), Some(json!({}))),
    ] {
        let path = world.module.path(elsewhere, &format!("/documents/{document}{tail}"));
        let call = world.module.call(method, &path);
        let call = match body {
            Some(body) => call.json(body),
            None => call,
        };
        let reply = call.send().await;
        assert_eq!((reply.status, reply.code()), (404, "NOT_FOUND"), "{method} {tail}");
    }
    for view in ["mine", "visible", "all"] {
        let path = world.module.path(elsewhere, &format!("/documents?view={view}"));
        assert_eq!(world.module.call("GET", &path).send().await.data()["items"], json!([]), "{view}");
    }
    let path = world.module.path(elsewhere, "/documents");
    let body = json!({ "title": "x", "folderId": folder });
    let reply = world.module.call("POST", &path).json(body).send().await;
    assert_eq!(
        (reply.status, reply.body["error"]["details"]["reason"].clone()),
        (422, json!("FOLDER_UNKNOWN"))
    );
    assert_eq!(world.module.contents().await, before);
}
