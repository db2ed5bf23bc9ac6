//! Idempotency keys.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::world::{AGENT, ALICE, BOB, World, told};

#[tokio::test]
async fn property_9_one_key_is_one_ticket_and_one_comment_and_another_body_is_refused() {
    let world = World::start().await;
    let body = || Some(json!({ "title": "x", "description": "" }));
    let first = world.post_keyed(ALICE, "/tickets", body(), "k").await;
    let ticket = crate::world::id(&first);
    // A replay returns the first response, whatever has happened to the ticket since, and changes nothing.
    world.assign(AGENT, &ticket, json!({ "assigneeMemberId": world.people[BOB].member })).await;
    let before = world.contents().await;
    let again = world.post_keyed(ALICE, "/tickets", body(), "k").await;
    assert_eq!(
        (again.status, again.body.clone(), again.header("idempotency-replayed")),
        (201, first.body, "true")
    );
    let other = Some(json!({ "title": "y", "description": "" }));
    let reused = world.post_keyed(ALICE, "/tickets", other, "k").await;
    assert_eq!(told(&reused), (422, "IDEMPOTENCY_KEY_REUSED"));
    assert_eq!(world.contents().await, before);
    let bobs = world.post_keyed(BOB, "/tickets", body(), "k").await;
    assert_ne!(bobs.data()["id"], again.data()["id"], "keys of different subjects are independent");

    let comments = format!("/tickets/{ticket}/comments");
    let say = || Some(json!({ "body": "It burns." }));
    let said = world.post_keyed(BOB, &comments, say(), "k").await;
    assert_eq!(said.status, 201, "{}", said.text);
    // The ticket is closed now; the stored response is still returned.
    world.move_to(ALICE, &ticket, "closed").await;
    let before = world.contents().await;
    let again = world.post_keyed(BOB, &comments, say(), "k").await;
    assert_eq!((again.status, again.body), (201, said.body));
    assert_eq!(world.contents().await, before);
    let new = world.post_keyed(BOB, &comments, say(), "l").await;
    assert_eq!(told(&new), (409, "TICKET_CLOSED"), "a new comment is checked");
    let elsewhere = format!("/tickets/{}/comments", bobs.data()["id"].as_str().expect("an id"));
    let reused = world.post_keyed(BOB, &elsewhere, say(), "k").await;
    assert_eq!(told(&reused), (422, "IDEMPOTENCY_KEY_REUSED"), "the ticket is part of the request");
}

#[tokio::test]
async fn a_comments_key_answers_only_those_who_may_still_write_it() {
    let world = World::start().await;
    let ticket = world.open(ALICE, "x").await;
    let comments = format!("/tickets/{ticket}/comments");
    let assign = async |who| world.assign(AGENT, &ticket, json!({ "assigneeMemberId": who })).await.status;
    let (agent, bob) = (json!(world.people[AGENT].member), json!(world.people[BOB].member));
    let say = async |who, body: &Value| world.post_keyed(who, &comments, Some(body.clone()), "k").await;
    let public = json!({ "body": "It burns." });
    assert_eq!(assign(bob.clone()).await, 200);
    let said = say(BOB, &public).await;
    assert_eq!((said.status, say(BOB, &public).await.body), (201, said.body.clone()), "control");
    assert_eq!(assign(agent).await, 200);
    assert_eq!(told(&say(BOB, &public).await), (403, "NOT_TICKET_PARTY"));
    let note = json!({ "body": "He is no friend.", "visibility": "internal" });
    let noted = say(AGENT, &note).await;
    assert_eq!((noted.status, say(AGENT, &note).await.body), (201, noted.body.clone()), "control");
    // Still the assignee, but no longer an agent.
    world.rights(AGENT, &[]);
    assert_eq!(told(&say(AGENT, &note).await), (403, "NOT_AGENT"));
    world.rights(BOB, &["editor"]);
    let unassign = world.assign(BOB, &ticket, json!({})).await;
    assert_eq!(unassign.status, 200, "{}", unassign.text);
    assert_eq!(told(&say(AGENT, &note).await), (403, "NOT_TICKET_PARTY"));
    assert_eq!(world.list(BOB, &comments).await.len(), 2, "nothing was written again");
    world.rights(AGENT, &["editor"]);
    assert_eq!(say(AGENT, &note).await.body, noted.body, "with access, the response returns");
}

#[tokio::test]
async fn property_9_many_at_once_under_one_key_are_one() {
    let world = World::start().await;
    for round in 0..testkit::races() {
        let key = format!("k{round}");
        let body = json!({ "title": "x", "description": "" });
        let made =
            join_all((0..5).map(|_| world.post_keyed(ALICE, "/tickets", Some(body.clone()), &key))).await;
        assert!(made.iter().all(|reply| reply.status == 201 && reply.body == made[0].body), "round {round}");
        let comments = format!("/tickets/{}/comments", crate::world::id(&made[0]));
        let body = json!({ "body": "x" });
        let said =
            join_all((0..5).map(|_| world.post_keyed(ALICE, &comments, Some(body.clone()), &key))).await;
        assert!(said.iter().all(|reply| reply.status == 201 && reply.body == said[0].body), "round {round}");
    }
    let rounds = i64::try_from(testkit::races()).expect("a small number");
    for table in ["tickets", "comments"] {
        assert_eq!(world.count(&format!("SELECT count(*) FROM helpdesk.{table}")).await, rounds);
    }
    let gaps = "SELECT count(*) FROM helpdesk.tickets WHERE number > (SELECT count(*) FROM helpdesk.tickets)";
    assert_eq!(world.count(gaps).await, 0, "a replay uses up no number");
}

#[tokio::test]
async fn keys_are_1_to_200_printable_characters() {
    let world = World::start().await;
    let body = || Some(json!({ "title": "x", "description": "" }));
    assert_eq!(world.post_keyed(ALICE, "/tickets", body(), &"k".repeat(200)).await.status, 201);
    for key in [String::new(), "k".repeat(201), "k\u{e4}".to_owned()] {
        let reply = world.post_keyed(ALICE, "/tickets", body(), &key).await;
        assert_eq!((reply.status, reply.code()), (400, "VALIDATION_ERROR"), "{key}");
    }
    let replies: Vec<Value> = world.list(ALICE, "/tickets").await;
    assert_eq!(replies.len(), 1);
}
