//! The worker that closes tickets that have been resolved for long enough.

use contract::Clock;
use helpdesk::Config;
use helpdesk::auto_close::{BATCH, run};
use serde_json::{Value, json};
use service::module::Parts;
use tokio_util::sync::CancellationToken;

use crate::world::{ADMIN, AGENT, ALICE, IN_USE, World};

fn worker(world: &World) -> Parts {
    let config = Config::read(&world.module.settings).expect("the settings of a test are right");
    Parts::start(&config.module, Clock::system(), &CancellationToken::new()).expect("the parts")
}

async fn age(world: &World, days: u32) {
    let older = format!(
        "UPDATE helpdesk.tickets SET (resolved_at, updated_at) = (now() - make_interval(days => {days}),
           now() - make_interval(days => {days})) WHERE status = 'resolved'"
    );
    world.module.execute(older).await;
}

#[tokio::test]
async fn what_is_resolved_for_as_long_as_the_rules_say_is_closed_by_the_system_and_told() {
    let world = World::start().await;
    let worker = worker(&world);
    let resolved = world.open(ALICE, "resolved").await;
    let working = world.open(ALICE, "working").await;
    assert_eq!(world.move_to(AGENT, &resolved, "resolved").await.status, 200);
    assert_eq!(world.move_to(AGENT, &working, "in_progress").await.status, 200);
    age(&world, 400).await;
    assert_eq!(run(&worker).await.expect("the database"), 0, "without a rule nothing is closed");
    let rule = json!({ "autoCloseResolvedDays": 7 });
    assert_eq!(world.ask(ADMIN, "PUT", "/settings", Some(rule)).await.status, 200);
    age(&world, 6).await;
    assert_eq!(run(&worker).await.expect("the database"), 0);
    age(&world, 7).await;
    world.module.execute("DELETE FROM helpdesk.notices".to_owned()).await;
    assert_eq!(run(&worker).await.expect("the database"), 1);
    assert_eq!(world.show(ALICE, &resolved).await.data()["status"], "closed");
    assert_eq!(world.show(ALICE, &working).await.data()["status"], "in_progress");
    let entries = world.list(ALICE, &format!("/tickets/{resolved}/history")).await;
    let last = entries.last().expect("an entry");
    assert_eq!(
        [&last["actor"], &last["action"]],
        [&json!("system:auto-close"), &json!("ticket.status_changed")]
    );
    assert_eq!(last["payload"], json!({ "status": { "from": "resolved", "to": "closed" } }));
    let notices: Vec<Value> = world
        .module
        .database
        .rows(
            "SELECT jsonb_build_object('subject', subject, 'line', subject_line) FROM helpdesk.notices"
                .to_owned(),
        )
        .await;
    assert_eq!(notices, [json!({ "subject": "subject-2", "line": "Ticket #1 is closed" })]);
    assert_eq!(run(&worker).await.expect("the database"), 0);
}

#[tokio::test]
async fn more_than_one_batch_is_closed_at_once() {
    let world = World::start().await;
    let worker = worker(&world);
    let rule = json!({ "autoCloseResolvedDays": 1 });
    assert_eq!(world.ask(ADMIN, "PUT", "/settings", Some(rule)).await.status, 200);
    let tickets = BATCH + 1;
    world.module.execute(format!(
        "INSERT INTO helpdesk.tickets(id, company_id, number, title, description, status, resolved_at, updated_at,
           reporter_member_id, reporter_kc_sub)
         SELECT gen_random_uuid(), '{}', n, 'x', '', 'resolved', now() - interval '2 days', now() - interval '2 days',
           '{}', 'subject-2'
         FROM generate_series(1, {tickets}) n",
        world.module.company, world.people[ALICE].member
    )).await;
    assert_eq!(run(&worker).await.expect("the database"), u64::try_from(tickets).expect("a number"));
    assert_eq!(world.count("SELECT count(*) FROM helpdesk.tickets WHERE status <> 'closed'").await, 0);
}

#[tokio::test]
async fn a_public_comment_on_a_resolved_ticket_begins_its_days_anew() {
    let world = World::start().await;
    let worker = worker(&world);
    let rule = json!({ "autoCloseResolvedDays": 7 });
    assert_eq!(world.ask(ADMIN, "PUT", "/settings", Some(rule)).await.status, 200);
    let [answered, noted] = [world.open(ALICE, "answered").await, world.open(ALICE, "noted").await];
    for ticket in [&answered, &noted] {
        assert_eq!(world.move_to(AGENT, ticket, "resolved").await.status, 200);
    }
    age(&world, 8).await;
    let tail = |ticket: &str| format!("/tickets/{ticket}/comments");
    let public = json!({ "body": "It does not work yet." });
    assert_eq!(world.ask(ALICE, "POST", &tail(&answered), Some(public)).await.status, 201);
    let internal = json!({ "body": "Seen.", "visibility": "internal" });
    assert_eq!(world.ask(AGENT, "POST", &tail(&noted), Some(internal)).await.status, 201);
    assert_eq!(run(&worker).await.expect("the database"), 1);
    let status = async |ticket: &str| world.show(ALICE, ticket).await.data()["status"].clone();
    assert_eq!((status(&answered).await, status(&noted).await), (json!("resolved"), json!("closed")));
    age(&world, 8).await;
    assert_eq!(run(&worker).await.expect("the database"), 1, "control: after as many days again");
}

#[tokio::test]
async fn no_company_waits_for_anothers_backlog() {
    let world = World::start().await;
    let worker = worker(&world);
    let backlog = 6 * BATCH;
    let [large, small] = ["00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002"];
    for (company, tickets) in [(large, backlog), (small, 1)] {
        world
            .module
            .execute(format!(
                "INSERT INTO helpdesk.settings(company_id, auto_close_resolved_days, reopen_on_reporter_comment)
                 VALUES ('{company}', 1, false);
                 INSERT INTO helpdesk.tickets(id, company_id, number, title, description, status, resolved_at, updated_at,
                   reporter_member_id, reporter_kc_sub)
                 SELECT gen_random_uuid(), '{company}', n, 'x', '', 'resolved', now() - interval '2 days',
                   now() - interval '2 days', gen_random_uuid(), 'subject-2' FROM generate_series(1, {tickets}) n"
            ))
            .await;
    }
    // The module's own worker may close some of them meanwhile.
    while world.count("SELECT count(*) FROM helpdesk.tickets WHERE status = 'resolved'").await > 0 {
        run(&worker).await.expect("the database");
    }
    let earlier = format!(
        "SELECT count(*) FROM audit.helpdesk__events WHERE company_id = '{large}'
           AND seq < (SELECT seq FROM audit.helpdesk__events WHERE company_id = '{small}')"
    );
    assert!(
        world.count(&earlier).await <= 2 * BATCH,
        "a portion of the large company's for each worker at most"
    );
    assert_eq!(world.count("SELECT count(*) FROM audit.helpdesk__events").await, backlog + 1, "control");
}

#[tokio::test]
async fn nothing_is_closed_where_the_module_is_not_in_use() {
    let world = World::start().await;
    let worker = worker(&world);
    let rule = json!({ "autoCloseResolvedDays": 7 });
    assert_eq!(world.ask(ADMIN, "PUT", "/settings", Some(rule)).await.status, 200);
    let ticket = world.open(ALICE, "resolved").await;
    assert_eq!(world.move_to(AGENT, &ticket, "resolved").await.status, 200);
    age(&world, 8).await;
    world.answer_in_use(false);
    assert_eq!(run(&worker).await.expect("authz answers"), 0);
    world.module.authz.close("GET", IN_USE);
    assert!(run(&worker).await.is_err(), "without an answer the worker waits");
    assert_eq!(world.show(ALICE, &ticket).await.data()["status"], "resolved");
    world.answer_in_use(true);
    assert_eq!(run(&worker).await.expect("authz answers"), 1, "control");
}
