//! Versions: list, read and restore.

use serde_json::{Value, json};

use crate::world::World;

#[tokio::test]
async fn versions_are_full_copies_the_newest_first_and_an_old_one_is_restored_as_a_new_one() {
    let world = World::of(3).await;
    let document = world.document(1, "Plan").await;
    for (base, title) in [(1, "Plan b"), (2, "Plan c")] {
        let body = json!({ "title": title, "body": format!("text {base}"), "baseVersion": base });
        assert_eq!(world.on(1, "PUT", &document, "", Some(body)).await.status, 200);
    }
    let restored = world.on(1, "POST", &document, "/versions/1/restore", None).await;
    assert_eq!(restored.status, 200, "{}", restored.text);
    let [version, title, body] = ["version", "title", "body"].map(|name| restored.data()[name].clone());
    assert_eq!((version, title, body), (json!(4), json!("Plan"), json!("text of Plan")));
    let listed = world.on(1, "GET", &document, "/versions?pageSize=3", None).await;
    let items = listed.data()["items"].as_array().expect("a page").clone();
    assert_eq!((&listed.data()["total"], items.len()), (&json!(4), 3));
    assert!(!listed.text.contains("text 1") && !listed.text.contains("text of"), "a list holds no text");
    let shown = |item: &Value| {
        (item["version"].clone(), item["title"].clone(), item["size"].clone(), item["restoredFrom"].clone())
    };
    assert_eq!(shown(&items[0]), (json!(4), json!("Plan"), json!(12), json!(1)));
    assert_eq!(shown(&items[1]), (json!(3), json!("Plan c"), json!(6), Value::Null));
    let second = world.on(1, "GET", &document, "/versions/2", None).await;
    assert_eq!((&second.data()["title"], &second.data()["body"]), (&json!("Plan b"), &json!("text 1")));
    assert_eq!(second.data()["author"], "subject-1");
    for (method, tail) in [("GET", ""), ("POST", "/restore")] {
        for number in ["5", "2147483647"] {
            let reply = world.on(1, method, &document, &format!("/versions/{number}{tail}"), None).await;
            assert_eq!((reply.status, reply.code()), (404, "NOT_FOUND"), "{number}{tail}");
        }
        for number in ["0", "-1", "x", "+1", "2147483648", "99999999999", "1e0"] {
            let reply = world.on(1, method, &document, &format!("/versions/{number}{tail}"), None).await;
            assert_eq!((reply.status, reply.code()), (400, "VALIDATION_ERROR"), "{number}{tail}");
            let fields = &reply.body["error"]["details"]["fields"];
            assert_eq!(fields[0]["path"], "version", "{number}{tail}");
            let reply = world.on(0, method, &document, &format!("/versions/{number}{tail}"), None).await;
            assert_eq!(reply.status, 403, "the decision comes first");
        }
    }
    let payload = world.module.audit().await[3]["payload"].clone();
    let expected = json!({ "title": { "from": "Plan c", "to": "Plan" }, "version": { "from": 3, "to": 4 },
        "size": { "from": 6, "to": 12 }, "restoredFrom": 1 });
    assert_eq!(payload, expected);
    assert_eq!(world.listed(1, "q=plan").await, ["Plan: owner"]);
}

#[tokio::test]
async fn an_answer_tells_the_version_that_its_request_wrote() {
    let world = World::of(3).await;
    // Another save commits right behind each one: before its answer, but after everything that it wrote.
    world
        .module
        .execute(
            "CREATE FUNCTION pg_temp_behind() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN
               UPDATE docs.documents SET current_version = current_version + 1, body = 'by another', updated_by = 'other'
                 WHERE 'document:' || id = NEW.subject;
               INSERT INTO docs.versions(document_id, version, title, body, author)
                 SELECT id, current_version, title, 'by another', 'other' FROM docs.documents
                 WHERE 'document:' || id = NEW.subject;
               RETURN NULL; END $$;
             CREATE TRIGGER behind AFTER INSERT ON audit.docs__events FOR EACH ROW
               WHEN (NEW.action IN ('document.updated', 'document.version_restored')) EXECUTE FUNCTION pg_temp_behind()"
                .to_owned(),
        )
        .await;
    let document = world.document(1, "Plan").await;
    let save = json!({ "body": "mine", "baseVersion": 1 });
    let saved = world.on(1, "PUT", &document, "", Some(save)).await;
    let restored = world.on(1, "POST", &document, "/versions/1/restore", None).await;
    let read = world.on(1, "GET", &document, "", None).await;
    let told = |reply: &testkit::Reply| {
        let data = reply.data();
        (reply.status, data["version"].clone(), data["body"].clone(), data["updatedBy"].clone())
    };
    assert_eq!(
        told(&read),
        (200, json!(5), json!("by another"), json!("other")),
        "control: there was another"
    );
    assert_eq!(told(&saved), (200, json!(2), json!("mine"), json!("subject-1")));
    assert_eq!(told(&restored), (200, json!(4), json!("text of Plan"), json!("subject-1")));
}
