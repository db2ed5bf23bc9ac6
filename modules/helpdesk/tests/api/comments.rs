//! Comments and internal notes.

use serde_json::json;
use uuid::Uuid;

use crate::world::{AGENT, ALICE, BOB, EVE, World, id, told};

#[tokio::test]
async fn comments_are_listed_in_their_order_with_their_authors_and_move_the_ticket_up() {
    let world = World::start().await;
    let [old, new] = [world.open(ALICE, "old").await, world.open(ALICE, "new").await];
    let first = world.comment(ALICE, &old, json!({ "body": "It burns." })).await;
    let second = world.comment(AGENT, &old, json!({ "body": "We come." })).await;
    assert_eq!((first.status, second.status), (201, 201), "{}", first.text);
    let expected = json!({ "id": first.data()["id"], "ticketId": old, "authorKcSub": "subject-2", "body": "It burns.",
        "visibility": "public", "createdAt": first.data()["createdAt"] });
    assert_eq!(first.data(), &expected);
    let listed = world.list(ALICE, &format!("/tickets/{old}/comments")).await;
    assert_eq!(listed, [first.data().clone(), second.data().clone()]);
    let order: Vec<String> = world
        .list(ALICE, "/tickets")
        .await
        .iter()
        .map(|ticket| ticket["id"].as_str().expect("an id").to_owned())
        .collect();
    assert_eq!(order, [old.clone(), new]);
    let rows = world.module.audit().await;
    let last = rows.last().expect("an audit row");
    assert_eq!(
        last["payload"],
        json!({ "commentId": id(&second), "visibility": "public" }),
        "no text is copied"
    );
    for (method, body) in [("GET", None), ("POST", Some(json!({ "body": "x" })))] {
        let tail = format!("/tickets/{old}/comments");
        assert_eq!(told(&world.ask(EVE, method, &tail, body.clone()).await), (403, "NOT_TICKET_PARTY"));
        let unknown = format!("/tickets/{}/comments", Uuid::now_v7());
        assert_eq!(told(&world.ask(AGENT, method, &unknown, body).await), (404, "NOT_FOUND"));
    }
}

#[tokio::test]
async fn internal_notes_push_nothing_out_of_the_history_that_others_see() {
    let world = World::start().await;
    let ticket = world.open(ALICE, "old").await;
    let history = format!("/tickets/{ticket}/history");
    let seen = async |who| -> Vec<String> {
        let reply = world.ask(who, "GET", &history, None).await;
        let entries = reply.data().as_array().expect("entries").clone();
        entries.iter().map(|entry| entry["action"].as_str().expect("an action").to_owned()).collect()
    };
    assert_eq!(seen(ALICE).await, ["ticket.created"], "control");
    let notes = format!(
        "INSERT INTO audit.helpdesk__events(company_id, actor, action, subject, payload)
         SELECT '{}', 'somebody', 'comment.added', 'ticket:{ticket}', '{{\"visibility\": \"internal\", \"n\": 1}}'
           FROM generate_series(1, 1000)",
        world.module.company
    );
    world.module.execute(notes).await;
    assert_eq!(seen(ALICE).await, ["ticket.created"]);
    let agents = seen(AGENT).await;
    assert_eq!(
        (agents.len(), agents.contains(&"ticket.created".to_owned())),
        (1_000, false),
        "the latest thousand"
    );
}

#[tokio::test]
async fn internal_notes_are_among_those_who_work_on_tickets_and_leave_no_trace_for_others() {
    let world = World::start().await;
    let ticket = world.open(ALICE, "x").await;
    world.assign(AGENT, &ticket, json!({ "assigneeMemberId": world.people[BOB].member })).await;
    let seen = world.show(ALICE, &ticket).await;
    let note = json!({ "body": "She is a friend of the boss.", "visibility": "internal" });
    for who in [ALICE, BOB] {
        assert_eq!(told(&world.comment(who, &ticket, note.clone()).await), (403, "NOT_AGENT"));
    }
    assert_eq!(told(&world.comment(EVE, &ticket, note.clone()).await), (403, "NOT_TICKET_PARTY"));
    let made = world.comment(AGENT, &ticket, note).await;
    assert_eq!((made.status, &made.data()["visibility"]), (201, &json!("internal")));
    let comments = format!("/tickets/{ticket}/comments");
    assert_eq!(world.list(AGENT, &comments).await.len(), 1);
    for who in [ALICE, BOB] {
        assert!(world.list(who, &comments).await.is_empty());
        assert_eq!(world.history(who, &ticket).await, ["ticket.created", "ticket.assigned"]);
    }
    assert_eq!(world.history(AGENT, &ticket).await.len(), 3);
    assert_eq!(world.show(ALICE, &ticket).await.data(), seen.data(), "including the time of change");
    let told = world.count("SELECT count(*) FROM helpdesk.notices WHERE event_type = 'comment.added'").await;
    assert_eq!(told, 0, "and there is no notice");
}

#[tokio::test]
async fn property_12_limits_of_a_comment_hold_at_and_one_past() {
    let world = World::start().await;
    let ticket = world.open(ALICE, "x").await;
    let fire = "\u{1f525}";
    for body in ["x".to_owned(), fire.repeat(10_000)] {
        assert_eq!(world.comment(ALICE, &ticket, json!({ "body": body })).await.status, 201);
    }
    for (body, wrong) in [
        (json!({ "body": "" }), "body length"),
        (json!({ "body": fire.repeat(10_001) }), "body length"),
        (json!({ "body": " \n" }), "body blank"),
        (json!({ "body": "a\0" }), "body control"),
        (json!({}), "body required"),
        (json!({ "body": "x", "visibility": "secret" }), "visibility enum"),
    ] {
        assert_eq!(world.comment(ALICE, &ticket, body).await.wrong_fields()[0], wrong);
    }
}

#[tokio::test]
async fn a_list_has_the_latest_thousand_and_says_when_there_are_more() {
    let world = World::start().await;
    let ticket = world.open(ALICE, "x").await;
    let fill = |from: u32, to: u32| {
        format!(
            "INSERT INTO helpdesk.comments(id, company_id, ticket_id, author_kc_sub, body, created_at)
             SELECT gen_random_uuid(), '{}', '{ticket}', 'somebody', 'Comment ' || n, '2026-01-01'::timestamptz
               + make_interval(secs => n) FROM generate_series({from}, {to}) n",
            world.module.company
        )
    };
    world.module.execute(fill(1, 1_000)).await;
    let tail = format!("/tickets/{ticket}/comments");
    let whole = world.ask(ALICE, "GET", &tail, None).await;
    assert_eq!(
        (whole.data()[0]["body"].as_str(), whole.header("x-result-truncated")),
        (Some("Comment 1"), "")
    );
    world.module.execute(fill(1_001, 1_001)).await;
    let cut = world.ask(ALICE, "GET", &tail, None).await;
    assert_eq!(
        (cut.data()[0]["body"].as_str(), cut.header("x-result-truncated")),
        (Some("Comment 2"), "true")
    );
    assert_eq!(cut.data().as_array().map(Vec::len), Some(1_000));
}

#[tokio::test]
async fn a_list_holds_two_mebibytes_of_the_latest_text() {
    let world = World::start().await;
    let ticket = world.open(ALICE, "x").await;
    // 40,000 bytes per comment: 52 of them fit.
    let fill = |from: u32, to: u32| {
        format!(
            "INSERT INTO helpdesk.comments(id, company_id, ticket_id, author_kc_sub, body, created_at)
             SELECT gen_random_uuid(), '{}', '{ticket}', 'author' || n, repeat('\u{1f525}', 10000), '2026-01-01'::timestamptz
               + make_interval(secs => n) FROM generate_series({from}, {to}) n",
            world.module.company
        )
    };
    for (from, to, first, truncated) in [(1, 52, 1, ""), (53, 53, 2, "true"), (54, 200, 149, "true")] {
        world.module.execute(fill(from, to)).await;
        let reply = world.ask(ALICE, "GET", &format!("/tickets/{ticket}/comments"), None).await;
        let items = reply.data().as_array().expect("a list");
        assert_eq!((items.len(), reply.header("x-result-truncated")), (52, truncated));
        assert_eq!(
            items[0]["authorKcSub"],
            format!("author{first}"),
            "the latest of a long list, oldest first"
        );
        assert_eq!(items[51]["authorKcSub"], format!("author{to}"));
    }
}
