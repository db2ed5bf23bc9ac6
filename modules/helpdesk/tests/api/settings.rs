//! A company's rules, and what the reporter's comment does under them.

use serde_json::{Value, json};

use crate::world::{ADMIN, AGENT, ALICE, BOB, World, told};

async fn rules(world: &World, body: Value) -> Value {
    let reply = world.ask(ADMIN, "PUT", "/settings", Some(body)).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    reply.data().clone()
}

async fn resolved(world: &World, days_ago: u32) -> String {
    let ticket = world.open(ALICE, "x").await;
    assert_eq!(world.move_to(AGENT, &ticket, "resolved").await.status, 200);
    let since = format!(
        "UPDATE helpdesk.tickets SET resolved_at = now() - make_interval(days => {days_ago}, mins => 1)
         WHERE id = '{ticket}'"
    );
    world.module.execute(since).await;
    ticket
}

#[tokio::test]
async fn rules_are_read_by_members_changed_in_part_by_administrators_and_written_down_once() {
    let world = World::start().await;
    let company = world.module.company;
    let defaults = json!({ "companyId": company, "autoCloseResolvedDays": null, "reopenOnReporterComment": false,
        "reporterReopenDays": null });
    assert_eq!(world.ask(ALICE, "GET", "/settings", None).await.data(), &defaults);
    let before = world.contents().await;
    assert_eq!(rules(&world, json!({})).await, defaults);
    assert_eq!(rules(&world, json!({ "autoCloseResolvedDays": null })).await, defaults);
    assert_eq!(world.contents().await, before, "no change leaves no trace");
    rules(&world, json!({ "autoCloseResolvedDays": 14 })).await;
    let both = rules(&world, json!({ "reporterReopenDays": 0, "reopenOnReporterComment": true })).await;
    let expected = json!({ "companyId": company, "autoCloseResolvedDays": 14, "reopenOnReporterComment": true,
        "reporterReopenDays": 0 });
    assert_eq!(both, expected);
    assert_eq!(
        rules(&world, json!({ "autoCloseResolvedDays": null })).await["autoCloseResolvedDays"],
        Value::Null
    );
    let rows = world.module.audit().await;
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0]["payload"], json!({ "autoCloseResolvedDays": { "from": null, "to": 14 } }));
    assert_eq!(told(&world.ask(AGENT, "PUT", "/settings", Some(json!({}))).await), (403, "ENGINE_DENIED"));
}

#[tokio::test]
async fn limits_of_rules_hold_at_and_one_past() {
    let world = World::start().await;
    for good in [
        json!({ "autoCloseResolvedDays": 1 }),
        json!({ "autoCloseResolvedDays": 3650, "reporterReopenDays": 3650 }),
    ] {
        rules(&world, good).await;
    }
    for (body, wrong) in [
        (json!({ "autoCloseResolvedDays": 0 }), "autoCloseResolvedDays range"),
        (json!({ "autoCloseResolvedDays": 3651 }), "autoCloseResolvedDays range"),
        (json!({ "reporterReopenDays": -1 }), "reporterReopenDays range"),
        (json!({ "reporterReopenDays": 1.5 }), "reporterReopenDays type"),
        (json!({ "reopenOnReporterComment": "yes" }), "reopenOnReporterComment type"),
    ] {
        assert_eq!(world.ask(ADMIN, "PUT", "/settings", Some(body)).await.wrong_fields(), [wrong]);
    }
}

#[tokio::test]
async fn nothing_moves_by_a_comment_until_the_rules_say_so_and_then_only_by_the_reporters_on_what_is_resolved()
 {
    let world = World::start().await;
    let status = async |ticket: &str| world.show(ALICE, ticket).await.data()["status"].clone();
    let say = async |who, ticket: &str| {
        assert_eq!(world.comment(who, ticket, json!({ "body": "Still." })).await.status, 201);
    };
    let ticket = resolved(&world, 0).await;
    say(ALICE, &ticket).await;
    assert_eq!(status(&ticket).await, "resolved");
    rules(&world, json!({ "reopenOnReporterComment": true })).await;
    say(AGENT, &ticket).await;
    let note = json!({ "body": "Internal.", "visibility": "internal" });
    assert_eq!(world.comment(AGENT, &ticket, note).await.status, 201);
    assert_eq!(status(&ticket).await, "resolved");
    say(ALICE, &ticket).await;
    assert_eq!(status(&ticket).await, "open");
    let rows = world.module.audit().await;
    let moved = rows.iter().rev().find(|row| row["action"] == "ticket.status_changed").expect("a row");
    assert_eq!(moved["actor"], "subject-2");
    let told = json!({ "status": { "from": "resolved", "to": "open" }, "cause": "comment.added" });
    assert_eq!(moved["payload"], told);
    say(ALICE, &ticket).await;
    assert_eq!(status(&ticket).await, "open");
}

#[tokio::test]
async fn the_reporter_reopens_within_the_days_of_the_rules_and_others_whenever_they_may() {
    let world = World::start().await;
    rules(&world, json!({ "reporterReopenDays": 3, "reopenOnReporterComment": true })).await;
    let young = resolved(&world, 2).await;
    assert_eq!(world.move_to(ALICE, &young, "open").await.status, 200);
    let old = resolved(&world, 3).await;
    assert_eq!(told(&world.move_to(ALICE, &old, "open").await), (403, "REOPEN_PERIOD_OVER"));
    assert_eq!(world.comment(ALICE, &old, json!({ "body": "Still." })).await.status, 201);
    assert_eq!(world.show(ALICE, &old).await.data()["status"], "resolved", "nor by a comment");
    world.assign(AGENT, &old, json!({ "assigneeMemberId": world.people[BOB].member })).await;
    assert_eq!(world.move_to(BOB, &old, "open").await.status, 200);
    let accepted = resolved(&world, 9).await;
    assert_eq!(world.move_to(ALICE, &accepted, "closed").await.status, 200, "accepting is never late");
}
