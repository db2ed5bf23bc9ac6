//! The state machine, through the API.

use serde_json::{Value, json};

use crate::world::{ADMIN, AGENT, ALICE, BOB, EVE, World, told};

const STATUSES: [&str; 4] = ["open", "in_progress", "resolved", "closed"];
/// Row: from, column: to. `g` agent, `a` assignee, `r` reporter, `.` no move, `=` nothing to do.
const TABLE: [[&str; 4]; 4] =
    [["=", "ga", "ga", "gr"], ["ga", "=", "ga", "g"], ["gar", "ga", "=", "gr"], ["g", ".", ".", "="]];

/// The ticket's row and its audit rows, which a refused move must not change.
async fn trace(world: &World, ticket: &str) -> Vec<Value> {
    let row = format!("SELECT to_jsonb(t) FROM helpdesk.tickets t WHERE id = '{ticket}'");
    let mut rows = world.module.database.rows(row).await;
    rows.extend(world.module.audit().await);
    rows
}

#[tokio::test]
async fn property_1_every_state_target_and_caller_ends_as_the_table_says() {
    let world = World::start().await;
    // Alice is the reporter, Bob the assignee; Eve is not a party.
    let ticket = world.open(ALICE, "The printer is on fire").await;
    let assignee = json!({ "assigneeMemberId": world.people[BOB].member });
    assert_eq!(world.assign(AGENT, &ticket, assignee).await.status, 200);
    let mut tried = 0;
    for (from, row) in STATUSES.into_iter().zip(TABLE) {
        for (to, cell) in STATUSES.into_iter().zip(row) {
            for (who, letter) in [(AGENT, 'g'), (ADMIN, 'g'), (BOB, 'a'), (ALICE, 'r'), (EVE, 'x')] {
                let resolved = if from == "resolved" { "now()" } else { "NULL" };
                let sql = format!(
                    "UPDATE helpdesk.tickets SET status = '{from}', resolved_at = {resolved} WHERE id = '{ticket}'"
                );
                world.module.execute(sql).await;
                let before = trace(&world, &ticket).await;
                let reply = world.move_to(who, &ticket, to).await;
                let expected = match (cell, letter) {
                    (_, 'x') => (403, "NOT_TICKET_PARTY"),
                    ("=", _) => (200, ""),
                    (".", _) => (409, "TICKET_INVALID_TRANSITION"),
                    (cell, letter) if cell.contains(letter) => (200, ""),
                    _ => (403, "TRANSITION_NOT_ALLOWED_FOR_ROLE"),
                };
                assert_eq!(told(&reply), expected, "{from} {to} {letter}: {}", reply.text);
                let after = trace(&world, &ticket).await;
                if expected.0 == 200 && cell != "=" {
                    assert_eq!(reply.data()["status"], to);
                    let last = after.last().expect("an audit row");
                    assert_eq!(last["payload"], json!({ "status": { "from": from, "to": to } }));
                    assert_eq!(last["actor"], world.people[who].subject);
                    assert_eq!(after.len(), before.len() + 1);
                } else {
                    assert_eq!(after, before, "{from} {to} {letter} leaves no trace");
                }
                tried += 1;
            }
        }
    }
    assert_eq!(tried, 80);
}

#[tokio::test]
async fn an_invalid_move_tells_the_moves_that_the_caller_has() {
    let world = World::start().await;
    let ticket = world.open(ALICE, "x").await;
    assert_eq!(world.move_to(ALICE, &ticket, "closed").await.status, 200);
    for (who, allowed) in [(ALICE, json!([])), (AGENT, json!(["open"]))] {
        let reply = world.move_to(who, &ticket, "resolved").await;
        let details = json!({ "from": "closed", "to": "resolved", "allowed": allowed });
        assert_eq!((reply.status, &reply.body["error"]["details"]), (409, &details));
    }
}

#[tokio::test]
async fn a_party_is_asked_for_authority_only_where_the_verdict_rests_on_it() {
    let world = World::start().await;
    let ticket = world.open(ALICE, "x").await;
    let work = |from: usize| {
        let asked = world.module.questions().split_off(from);
        let asked: Vec<Value> =
            asked.into_iter().filter(|question| question["featureKey"] == "helpdesk.tickets.work").collect();
        asked
    };
    let seen = world.module.questions().len();
    assert_eq!(world.move_to(ALICE, &ticket, "closed").await.status, 200);
    assert!(work(seen).is_empty());
    let seen = world.module.questions().len();
    assert_eq!(told(&world.move_to(ALICE, &ticket, "open").await).0, 403);
    let asked = work(seen);
    assert!(
        asked.len() == 1 && asked[0]["probe"].is_null(),
        "a no refuses the call, so authz records it: {asked:?}"
    );
    let seen = world.module.questions().len();
    assert_eq!(told(&world.move_to(ALICE, &ticket, "resolved").await).0, 409);
    assert_eq!(work(seen)[0]["probe"], true, "it only decides which moves are listed");
}

#[tokio::test]
async fn property_14_a_closed_ticket_takes_neither_comment_nor_assignment_until_an_agent_reopens_it() {
    let world = World::start().await;
    let ticket = world.open(ALICE, "x").await;
    assert_eq!(world.move_to(ALICE, &ticket, "closed").await.status, 200);
    let before = trace(&world, &ticket).await;
    for who in [ALICE, AGENT, ADMIN] {
        let comment = world.comment(who, &ticket, json!({ "body": "Still?" })).await;
        assert_eq!(told(&comment), (409, "TICKET_CLOSED"));
    }
    for body in [json!({}), json!({ "assigneeMemberId": world.people[BOB].member })] {
        assert_eq!(told(&world.assign(AGENT, &ticket, body).await), (409, "TICKET_CLOSED"));
    }
    let refused = world.move_to(ALICE, &ticket, "open").await;
    assert_eq!(told(&refused), (403, "TRANSITION_NOT_ALLOWED_FOR_ROLE"));
    assert_eq!(trace(&world, &ticket).await, before);
    assert_eq!(world.move_to(AGENT, &ticket, "open").await.status, 200);
    assert_eq!(world.comment(ALICE, &ticket, json!({ "body": "Thanks." })).await.status, 201);
}
