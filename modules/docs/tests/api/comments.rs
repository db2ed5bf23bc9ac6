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
