//! Properties that hold after any history.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::history::{Played, play};
use super::model::STATUSES;
use crate::world::{AGENT, ALICE, World, told};

#[tokio::test]
async fn property_2_parallel_moves_end_as_some_order_of_them_and_leave_a_chain() {
    let world = World::start().await;
    for round in 0..testkit::races() {
        let ticket = world.open(ALICE, "x").await;
        let moves: Vec<&str> = STATUSES.iter().cycle().skip(round).take(6).copied().collect();
        let replies = join_all(moves.iter().map(|to| world.move_to(AGENT, &ticket, to))).await;
        for reply in &replies {
            let answer = told(reply);
            assert!(answer.0 == 200 || answer == (409, "TICKET_INVALID_TRANSITION"), "{}", reply.text);
        }
        let entries = world.list(AGENT, &format!("/tickets/{ticket}/history")).await;
        let mut at = json!("open");
        for entry in entries.iter().filter(|entry| entry["action"] == "ticket.status_changed") {
            assert_eq!(entry["payload"]["status"]["from"], at, "{entries:?}");
            at = entry["payload"]["status"]["to"].clone();
        }
        assert_eq!(world.show(AGENT, &ticket).await.data()["status"], at);
    }
}

#[tokio::test]
async fn property_3_the_kind_and_the_three_ids_of_an_assignee_always_agree() {
    for seed in [31, 32] {
        // The history compares them at every step.
        let played = play(seed).await;
        let torn = "SELECT count(*) FROM helpdesk.tickets
            WHERE num_nonnulls(assignee_member_id, assignee_position_id, assignee_group_id) <> (assignee_kind IS NOT NULL)::int
               OR (assignee_label IS NULL) <> (assignee_kind IS NULL)";
        assert_eq!(played.world.count(torn).await, 0, "seed {seed}");
        let assigned = played.model.tickets.iter().filter(|ticket| ticket.assignee.is_some()).count();
        assert!(assigned > 0 && played.refused > 10, "seed {seed}: {assigned} {}", played.refused);
    }
}

#[tokio::test]
async fn property_7_everybody_sees_the_reported_and_the_assigned_and_nothing_else() {
    for seed in [71, 72] {
        let played = play(seed).await;
        let tickets = 0..played.model.tickets.len();
        for who in 0..Played::people() {
            let own: Vec<usize> =
                tickets.clone().filter(|ticket| played.model.is_party(who, *ticket)).collect();
            assert_eq!(played.listed(who, "/tickets").await, own, "seed {seed}: {who}");
            let all = played.world.ask(who, "GET", "/tickets?view=all", None).await;
            assert_eq!(all.status, if played.model.is_agent(who) { 200 } else { 403 });
            for ticket in tickets.clone() {
                let id = &played.ids[ticket];
                let comments = format!("/tickets/{id}/comments");
                let history = format!("/tickets/{id}/history");
                for tail in [format!("/tickets/{id}"), history, comments] {
                    let status = played.world.ask(who, "GET", &tail, None).await.status;
                    let expected = if played.model.sees(who, ticket) { 200 } else { 403 };
                    assert_eq!(status, expected, "seed {seed}: {who} {tail}");
                }
            }
        }
        let all: Vec<usize> = tickets.collect();
        assert_eq!(played.listed(AGENT, "/tickets?view=all").await, all);
    }
}

#[tokio::test]
async fn property_10_a_history_has_one_entry_for_each_change_by_who_made_it_and_none_besides() {
    for seed in [101, 102] {
        let played = play(seed).await;
        let told = |entry: &Value| {
            let text = |name: &str| entry[name].as_str().expect("a text").to_owned();
            (text("actor"), text("action"))
        };
        for (ticket, found) in played.model.tickets.iter().enumerate() {
            for who in 0..Played::people() {
                if !played.model.sees(who, ticket) {
                    continue;
                }
                let agent = played.model.is_agent(who);
                let expected: Vec<(String, String)> = found
                    .told
                    .iter()
                    .filter(|(.., internal)| agent || !internal)
                    .map(|(who, action, _)| (played.world.people[*who].subject.clone(), (*action).to_owned()))
                    .collect();
                let entries =
                    played.world.list(who, &format!("/tickets/{}/history", played.ids[ticket])).await;
                assert_eq!(entries.iter().map(told).collect::<Vec<_>>(), expected, "seed {seed}: {who}");
                assert_eq!(entries[0]["action"], "ticket.created");
            }
        }
        let told: usize = played.model.tickets.iter().map(|ticket| ticket.told.len()).sum();
        assert_eq!(played.world.module.audit().await.len(), told, "seed {seed}: no other rows");
    }
}
