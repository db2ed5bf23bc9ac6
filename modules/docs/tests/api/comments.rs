//! Comments: written by commenters, read by viewers, resolved once.

use serde_json::{Value, json};

use crate::world::{World, id};

#[tokio::test]
async fn commenters_comment_viewers_read_and_a_comment_is_resolved_once() {
    let world = World::of(5).await;
    let document = world.document(1, "Plan").await;
    assert_eq!(world.share(1, &document, 2, "viewer").await.status, 201);
    assert_eq!(world.share(1, &document, 3, "commenter").await.status, 201);
    let write =
        async |who| world.on(who, "POST", &document, "/comments", Some(json!({ "body": "Why?" }))).await;
    assert_eq!(write(2).await.status, 403);
    let made = write(3).await;
    let comment = id(&made);
    let expected = json!({ "id": comment, "documentId": document, "version": 1, "body": "Why?", "author": "subject-3",
        "createdAt": made.data()["createdAt"], "resolvedAt": null, "resolvedBy": null });
    assert_eq!(made.data(), &expected);
    assert_eq!(
        world.on(3, "PUT", &document, "", Some(json!({ "body": "x", "baseVersion": 1 }))).await.status,
        403
    );
    write(1).await;
    let resolve = format!("/comments/{comment}/resolve");
    assert_eq!(world.on(2, "POST", &document, &resolve, None).await.status, 403);
    let resolved = world.on(1, "POST", &document, &resolve, None).await;
    assert_eq!((resolved.status, &resolved.data()["resolvedBy"]), (200, &json!("subject-1")));
    let again = world.on(1, "POST", &document, &resolve, None).await;
    assert_eq!((again.status, again.code()), (409, "COMMENT_RESOLVED"));
    let other = world.document(1, "Other").await;
    assert_eq!(world.on(1, "POST", &other, &resolve, None).await.status, 404, "another document's comment");
    for (query, expected) in
        [("", 2), ("?status=open", 1), ("?status=resolved", 1), ("?status=all&pageSize=1", 2)]
    {
        let listed = world.on(2, "GET", &document, &format!("/comments{query}"), None).await;
        assert_eq!((listed.status, &listed.data()["total"]), (200, &json!(expected)), "{query}");
    }
    let audit = world.module.audit().await;
    let told: Vec<&Value> = audit.iter().filter(|row| row["action"] == "comment.created").collect();
    assert_eq!(told[0]["payload"], json!({ "commentId": comment, "version": 1 }), "never what it says");
}

#[tokio::test]
async fn the_longest_comment_fits_and_one_past_it_does_not() {
    let world = World::of(3).await;
    let document = world.document(1, "Plan").await;
    let write =
        async |body: String| world.on(1, "POST", &document, "/comments", Some(json!({ "body": body }))).await;
    assert_eq!(write("ä".repeat(10_000)).await.status, 201);
    assert_eq!(write("ä".repeat(10_001)).await.wrong_fields(), ["body length"]);
    assert_eq!(write(" ".to_owned()).await.wrong_fields(), ["body blank"]);
}

#[tokio::test]
async fn one_key_makes_one_comment() {
    let world = World::of(4).await;
    let (document, other) = (world.document(1, "Plan").await, world.document(1, "Other").await);
    assert_eq!(world.share(1, &document, 2, "commenter").await.status, 201);
    let write = async |who, document: &str, text: &str| {
        let tail = format!("/documents/{document}/comments");
        world.ask_keyed(who, "POST", &tail, Some(json!({ "body": text })), Some("once")).await
    };
    let made = write(2, &document, "Why?").await;
    let again = write(2, &document, "Why?").await;
    assert_eq!((made.status, again.status, id(&again)), (201, 201, id(&made)), "{}", again.text);
    assert_eq!(again.header("idempotency-replayed"), "true");
    for (document, text) in [(&document, "When?"), (&other, "Why?")] {
        let reused = write(1, document, text).await;
        assert_eq!(reused.status, 201, "control: another caller's key: {}", reused.text);
        let reused = write(1, document, "Who?").await;
        assert_eq!((reused.status, reused.code()), (422, "IDEMPOTENCY_KEY_REUSED"), "{}", reused.text);
        sqlx::query("DELETE FROM docs.idempotency_keys WHERE actor = 'subject-1'")
            .execute(&world.module.database.owner_pool())
            .await
            .expect("the key is free");
    }
    let listed = world.on(1, "GET", &document, "/comments", None).await;
    assert_eq!(listed.data()["total"], 2);
    let share = world.on(1, "GET", &document, "/shares", None).await.data()[0]["id"].clone();
    let tail = format!("/shares/{}", share.as_str().expect("an id"));
    assert_eq!(world.on(1, "DELETE", &document, &tail, None).await.status, 200);
    assert_eq!(write(2, &document, "Why?").await.status, 403, "a stored answer is for those who may comment");
}
