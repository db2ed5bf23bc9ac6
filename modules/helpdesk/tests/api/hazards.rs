//! Every row of the design's table of concurrency hazards, each provoked [`testkit::races`] times over real
//! connections; the module uses several at once.

use std::time::Duration;

use contract::Clock;
use futures_util::future::join_all;
use helpdesk::Config;
use helpdesk::auto_close;
use serde_json::{Value, json};
use service::module::Parts;
use testkit::Reply;
use testkit::module::tuples::GRANTS;
use tokio_util::sync::CancellationToken;

use crate::world::{ADMIN, AGENT, ALICE, BOB, EVE, World, told};

/// How often each hazard is provoked.
fn rounds() -> usize {
    testkit::races()
}

/// The codes of the responses, `done` for a success, sorted.
fn words(replies: &[Reply]) -> Vec<String> {
    let word = |reply: &Reply| match told(reply) {
        (200 | 201, _) => "done".to_owned(),
        (403 | 404 | 409, word) => word.to_owned(),
        other => panic!("{other:?} {}", reply.text),
    };
    let mut words: Vec<String> = replies.iter().map(word).collect();
    words.sort();
    words
}

#[tokio::test]
async fn hazard_two_administrators_remove_each_other() {
    let world = World::start().await;
    let [alice, bob] = [ALICE, BOB].map(|who| world.people[who].member);
    for round in 0..rounds() {
        for member in [alice, bob] {
            let made = world.bind(ADMIN, json!({ "memberId": member })).await;
            assert!(made.status == 201 || made.code() == "BINDING_EXISTS", "{}", made.text);
        }
        // In every other round, one caller removes both.
        let other = if round % 2 == 0 { BOB } else { ALICE };
        let (left, right) =
            tokio::join!(world.unbind(ALICE, "members", bob), world.unbind(other, "members", alice));
        let expected = [("LAST_ADMINISTRATOR", "done"), ("ENGINE_DENIED", "done")];
        let words = words(&[left, right]);
        assert!(expected.iter().any(|(left, right)| words == [*left, *right]), "round {round}: {words:?}");
        let left = "SELECT count(*) FROM helpdesk.bindings WHERE state = 'active'";
        assert_eq!((world.count(left).await, world.tuples.all().len()), (1, 1), "round {round}");
    }
}

#[tokio::test]
async fn hazard_a_binding_is_made_while_another_is_removed() {
    let world = World::start().await;
    let [alice, bob] = [ALICE, BOB].map(|who| world.people[who].member);
    assert_eq!(world.bind(ADMIN, json!({ "memberId": alice })).await.status, 201);
    for round in 0..rounds() {
        let (bound, other) = if round % 2 == 0 { (alice, bob) } else { (bob, alice) };
        let (made, gone) = tokio::join!(
            world.bind(ADMIN, json!({ "memberId": other })),
            world.unbind(ADMIN, "members", bound)
        );
        assert_eq!(made.status, 201, "round {round}: {}", made.text);
        // The new binding does not count while it is pending.
        if gone.status == 409 {
            assert_eq!(told(&gone).1, "LAST_ADMINISTRATOR");
            assert_eq!(world.unbind(ADMIN, "members", bound).await.status, 200);
        }
        assert_eq!(world.count("SELECT active_bindings::bigint FROM helpdesk.admin_guard").await, 1);
    }
}

#[tokio::test]
async fn hazard_a_crash_between_row_and_tuple() {
    let world = World::start().await;
    let [alice, bob] = [ALICE, BOB].map(|who| world.people[who].member);
    assert_eq!(world.bind(ADMIN, json!({ "memberId": alice })).await.status, 201);
    let guard = "SELECT active_bindings::bigint FROM helpdesk.admin_guard";
    for round in 0..rounds() {
        // The outcome in authz stays unknown, as when the process dies: the row stays, and the guard errs on the side
        // of refusing.
        world.module.authz.close("POST", GRANTS);
        assert_eq!(world.bind(ADMIN, json!({ "memberId": bob })).await.status, 503);
        assert_eq!(world.count(guard).await, 1);
        let last = world.unbind(ADMIN, "members", alice).await;
        assert_eq!(told(&last), (409, "LAST_ADMINISTRATOR"), "round {round}");
        world.answer_grants();
        let both = join_all((0..2).map(|_| world.bind(ADMIN, json!({ "memberId": bob })))).await;
        assert_eq!(
            words(&both),
            ["BINDING_EXISTS", "done"],
            "round {round}: one resumes, the other is too late"
        );
        world.module.authz.close("POST", GRANTS);
        assert_eq!(world.unbind(ADMIN, "members", bob).await.status, 503);
        assert_eq!((world.count(guard).await, world.tuples.all().len()), (1, 2));
        world.answer_grants();
        let both = join_all((0..2).map(|_| world.unbind(ADMIN, "members", bob))).await;
        assert_eq!(words(&both), ["NOT_FOUND", "done"], "round {round}");
        assert_eq!((world.count(guard).await, world.tuples.all().len()), (1, 1));
    }
}

#[tokio::test]
async fn hazard_two_status_changes_at_once() {
    let world = World::start().await;
    for round in 0..rounds() {
        let ticket = world.open(ALICE, "x").await;
        let (closed, taken) = tokio::join!(
            world.move_to(ALICE, &ticket, "closed"),
            world.move_to(AGENT, &ticket, "in_progress")
        );
        let words = words(&[closed, taken]);
        // The second move is checked against the result of the first: a closed ticket cannot be moved, and one in
        // progress cannot be withdrawn.
        let expected = [["TICKET_INVALID_TRANSITION", "done"], ["TRANSITION_NOT_ALLOWED_FOR_ROLE", "done"]];
        assert!(expected.iter().any(|expected| words == *expected), "round {round}: {words:?}");
        let moves = world.history(AGENT, &ticket).await.len();
        assert_eq!(moves, 2, "round {round}: one move");
    }
}

#[tokio::test]
async fn hazard_an_assignment_and_a_comment_while_the_ticket_is_closed() {
    let world = World::start().await;
    let bob = json!({ "assigneeMemberId": world.people[BOB].member });
    for _ in 0..rounds() {
        let ticket = world.open(ALICE, "x").await;
        let (closed, assigned, said) = tokio::join!(
            world.move_to(ALICE, &ticket, "closed"),
            world.assign(AGENT, &ticket, bob.clone()),
            world.comment(ALICE, &ticket, json!({ "body": "x" })),
        );
        assert_eq!(closed.status, 200, "{}", closed.text);
        let history = world.history(AGENT, &ticket).await;
        assert_eq!(history.last().map(String::as_str), Some("ticket.status_changed"), "{history:?}");
        for reply in [assigned, said] {
            assert!(told(&reply) == (409, "TICKET_CLOSED") || reply.status < 300, "{}", reply.text);
        }
    }
}

#[tokio::test]
async fn hazard_a_ticket_and_a_comment_are_sent_twice() {
    let world = World::start().await;
    let body = json!({ "title": "x", "description": "" });
    for round in 0..rounds() {
        let key = format!("k{round}");
        let (left, right) = tokio::join!(
            world.post_keyed(ALICE, "/tickets", Some(body.clone()), &key),
            world.post_keyed(ALICE, "/tickets", Some(body.clone()), &key),
        );
        assert_eq!((left.status, left.body), (right.status, right.body.clone()));
        let comments = format!("/tickets/{}/comments", crate::world::id(&right));
        let say = || world.post_keyed(ALICE, &comments, Some(json!({ "body": "x" })), &key);
        let (left, right) = tokio::join!(say(), say());
        assert_eq!((left.status, left.body), (201, right.body));
    }
    let rounds = i64::try_from(rounds()).expect("a small number");
    for table in ["tickets", "comments", "notices"] {
        let expected = if table == "notices" { rounds * 2 } else { rounds };
        assert_eq!(world.count(&format!("SELECT count(*) FROM helpdesk.{table}")).await, expected, "{table}");
    }
}

#[tokio::test]
async fn hazard_the_assignee_loses_the_position_while_acting() {
    let world = World::start().await;
    let desk = world.position("Desk", Some(BOB));
    for round in 0..rounds() {
        world.hold(desk, Some(BOB));
        let ticket = world.open(ALICE, "x").await;
        world.assign(AGENT, &ticket, json!({ "assigneePositionId": desk })).await;
        // Change the position's holder and, in every other round, the assignment too.
        let unassigned = async {
            world.hold(desk, Some(EVE));
            if round % 2 == 0 { world.assign(AGENT, &ticket, json!({})).await.status } else { 200 }
        };
        let (moved, unassigned) = tokio::join!(world.move_to(BOB, &ticket, "in_progress"), unassigned);
        assert_eq!(unassigned, 200);
        assert!(
            matches!(told(&moved), (200, _) | (403, "NOT_TICKET_PARTY")),
            "round {round}: {}",
            moved.text
        );
        assert_eq!(told(&world.move_to(BOB, &ticket, "resolved").await), (403, "NOT_TICKET_PARTY"));
        // A former assignee never moves a ticket after its assignee has changed.
        let entries = world.list(AGENT, &format!("/tickets/{ticket}/history")).await;
        let at = |action: &str| entries.iter().position(|entry| entry["action"] == action);
        if let (Some(moved), Some(unassigned)) = (at("ticket.status_changed"), at("ticket.unassigned")) {
            assert!(moved < unassigned, "round {round}: {entries:?}");
        }
    }
}

#[tokio::test]
async fn hazard_comments_at_once_never_turn_the_tickets_time_back() {
    let world = World::start().await;
    let ticket = world.open(ALICE, "x").await;
    let mut last = String::new();
    for _ in 0..rounds() {
        let said = join_all((0..4).map(|_| world.comment(ALICE, &ticket, json!({ "body": "x" })))).await;
        assert!(said.iter().all(|reply| reply.status == 201));
        let changed =
            world.show(ALICE, &ticket).await.data()["updatedAt"].as_str().expect("a moment").to_owned();
        assert!(changed >= last, "{changed} after {last}");
        last = changed;
    }
    let comments = world.list(ALICE, &format!("/tickets/{ticket}/comments")).await;
    let times: Vec<&Value> = comments.iter().map(|comment| &comment["createdAt"]).collect();
    assert!(times.is_sorted_by_key(|time| time.as_str()), "the order of a list is the order of the writes");
    let future = "UPDATE helpdesk.tickets SET updated_at = now() + interval '1 hour'";
    world.module.execute(future.to_owned()).await;
    let before = world.show(ALICE, &ticket).await.data()["updatedAt"].clone();
    world.comment(ALICE, &ticket, json!({ "body": "x" })).await;
    assert_eq!(world.show(ALICE, &ticket).await.data()["updatedAt"], before, "a clock that was set back");
}

#[tokio::test]
async fn hazard_the_closer_and_the_reporter_at_once() {
    let world = World::start().await;
    let config = Config::read(&world.module.settings).expect("the settings of a test are right");
    let worker = Parts::start(&config.module, Clock::system(), &CancellationToken::new()).expect("the parts");
    let rules = json!({ "autoCloseResolvedDays": 1, "reopenOnReporterComment": true });
    assert_eq!(world.ask(ADMIN, "PUT", "/settings", Some(rules)).await.status, 200);
    for round in 0..rounds() {
        let ticket = world.open(ALICE, "x").await;
        assert_eq!(world.move_to(AGENT, &ticket, "resolved").await.status, 200);
        let aged =
            "UPDATE helpdesk.tickets SET resolved_at = now() - interval '2 days' WHERE status = 'resolved'";
        world.module.execute(aged.to_owned()).await;
        let (closed, also, said) = tokio::join!(
            auto_close::run(&worker),
            auto_close::run(&worker),
            world.comment(ALICE, &ticket, json!({ "body": "Still." })),
        );
        let closed = closed.expect("the database") + also.expect("the database");
        let status = world.show(ALICE, &ticket).await.data()["status"].clone();
        let expected = if said.status == 201 { (0, json!("open")) } else { (1, json!("closed")) };
        assert_eq!((closed, status), expected, "round {round}: {}", said.text);
    }
    worker.core.workers.end().await;
    tokio::time::timeout(Duration::from_secs(5), worker.core.pool.close()).await.expect("a pool closes");
}
