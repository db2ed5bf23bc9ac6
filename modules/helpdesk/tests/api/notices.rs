//! Notices: written with the change, posted by the worker, never by the request.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::{Recorded, SERVICE, Stub};

use crate::start_telling;
use crate::world::{AGENT, ALICE, BOB, STAFF, World};

const PATH: &str = "/internal/notification/events";
/// Longer than any notice of a test takes.
const PATIENCE: Duration = Duration::from_mins(1);

async fn world() -> (World, Stub) {
    let notification = Stub::start().await;
    notification.answer("POST", PATH, 202, json!({ "data": { "messageId": null, "deduplicated": false } }));
    (World::around(start_telling(notification.url()).await, &STAFF), notification)
}

async fn told(notification: &Stub, count: usize) -> Vec<Recorded> {
    let (start, mut turn) = (Instant::now(), tokio::time::interval(Duration::from_millis(20)));
    loop {
        turn.tick().await;
        let found = notification.requests();
        if found.len() >= count {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{} of {count} notices", found.len());
    }
}

async fn states(world: &World) -> Vec<Value> {
    let sql = "SELECT jsonb_build_object('state', state, 'attempts', attempt_count, 'why', error_class)
               FROM helpdesk.notices ORDER BY created_at, id";
    world.module.database.rows(sql.to_owned()).await
}

async fn until(world: &World, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let (start, mut turn) = (Instant::now(), tokio::time::interval(Duration::from_millis(20)));
    loop {
        turn.tick().await;
        let found = states(world).await;
        if holds(&found) {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{found:?}");
    }
}

#[tokio::test]
async fn every_change_is_told_in_the_name_of_who_made_it_without_a_bearer_and_without_its_texts() {
    let (world, notification) = world().await;
    let ticket = world.open(ALICE, "Secret title").await;
    world.assign(AGENT, &ticket, json!({ "assigneeMemberId": world.people[BOB].member })).await;
    world.move_to(BOB, &ticket, "in_progress").await;
    world.comment(ALICE, &ticket, json!({ "body": "Secret words" })).await;
    world.comment(AGENT, &ticket, json!({ "body": "Secret note", "visibility": "internal" })).await;
    world.assign(AGENT, &ticket, json!({})).await;
    let requests = told(&notification, 5).await;
    let mut told: Vec<(String, String, String)> = requests
        .iter()
        .map(|request| {
            let text = |name: &str| request.body[name].as_str().expect("a text").to_owned();
            assert_eq!(request.headers.get("x-platform-service").expect("a credential"), SERVICE);
            assert!(request.headers.get("authorization").is_none());
            assert_eq!(
                [&request.body["companyId"], &request.body["sourceModule"], &request.body["channelKey"]],
                [&json!(world.module.company), &json!("helpdesk"), &json!("helpdesk")]
            );
            assert!(!request.body.to_string().contains("Secret"), "{}", request.body);
            (text("eventType"), text("subject"), text("subjectLine"))
        })
        .collect();
    told.sort();
    let expected = [
        ("comment.added", "subject-2", "Ticket #1 has a new comment"),
        ("ticket.assigned", "subject-1", "Ticket #1 was assigned"),
        ("ticket.created", "subject-2", "Ticket #1 was opened"),
        ("ticket.status_changed", "subject-3", "Ticket #1 is in progress"),
        ("ticket.unassigned", "subject-1", "Ticket #1 has no assignee"),
    ];
    let expected: Vec<(String, String, String)> = expected
        .iter()
        .map(|(kind, who, line)| ((*kind).to_owned(), (*who).to_owned(), (*line).to_owned()))
        .collect();
    assert_eq!(told, expected);
    until(&world, |notices| notices.iter().all(|notice| notice["state"] == "done")).await;
}

#[tokio::test]
async fn a_notice_that_is_not_answered_is_told_again_and_one_that_is_refused_is_given_up() {
    let (world, notification) = world().await;
    notification.answer("POST", PATH, 503, Value::Null);
    let made = world.ask(ALICE, "POST", "/tickets", Some(json!({ "title": "x", "description": "" }))).await;
    assert_eq!(made.status, 201, "no request fails with notification");
    let first = told(&notification, 1).await.remove(0);
    notification.answer("POST", PATH, 202, json!({ "data": { "messageId": null } }));
    until(&world, |notices| notices[0]["state"] == "done").await;
    let again = notification.requests();
    let last = again.last().expect("a repetition");
    assert_eq!(last.body["dedupeKey"], first.body["dedupeKey"], "notification knows it by its key");
    for status in [403, 422, 400] {
        notification.answer("POST", PATH, status, Value::Null);
        world.open(ALICE, "y").await;
        let found =
            until(&world, |notices| notices.last().is_some_and(|notice| notice["state"] == "dead")).await;
        assert_eq!(found.last().expect("a notice")["attempts"], 1);
    }
    let dead = world.module.audit().await.iter().filter(|row| row["action"] == "notice.dead").count();
    assert_eq!(dead, 3);
}

#[tokio::test]
async fn a_change_that_is_rolled_back_or_replayed_is_not_told() {
    let (world, notification) = world().await;
    let body = json!({ "title": "x", "description": "" });
    for _ in 0..3 {
        assert_eq!(world.post_keyed(ALICE, "/tickets", Some(body.clone()), "k1").await.status, 201);
    }
    let ticket = world.open(ALICE, "y").await;
    assert_eq!(world.move_to(BOB, &ticket, "closed").await.status, 403);
    assert_eq!(world.move_to(ALICE, &ticket, "open").await.status, 200);
    until(&world, |notices| notices.iter().all(|notice| notice["state"] == "done")).await;
    assert_eq!((states(&world).await.len(), notification.requests().len()), (2, 2));
}
