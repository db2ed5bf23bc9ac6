//! The invariant of administrators in random concurrent histories.

use futures_util::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use super::history::Chance;
use crate::world::{ADMIN, ALICE, BOB, EVE, World, told};

/// Steps that run concurrently.
const AT_ONCE: usize = 6;

/// When all rows are settled, the tuples are exactly those of the bindings that are `active` or `revoking`, and the
/// guard counts the active administrators.
async fn agrees(world: &World) {
    let sql = "SELECT to_jsonb(b) FROM helpdesk.bindings b WHERE state <> 'pending'";
    let rows: Vec<Value> = world.module.database.rows(sql.to_owned()).await;
    let module = format!("company_module:{}/helpdesk", world.module.company);
    let tuple = |row: &Value| {
        let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        let subject = match row["binding_kind"].as_str() {
            Some("member") => format!("user:{}", text("kc_sub")),
            Some("position") => format!("position:{}#holder", text("position_id")),
            _ => format!("group:{}#member", text("group_id")),
        };
        format!("{module}#{}@{subject}", text("tier"))
    };
    let mut expected: Vec<String> = rows.iter().map(tuple).collect();
    expected.sort();
    assert_eq!(world.tuples.all(), expected);
    let wrong = "SELECT count(*) FROM helpdesk.admin_guard g WHERE active_bindings <> (SELECT count(*) FROM
        helpdesk.bindings b WHERE b.company_id = g.company_id AND tier = 'admin' AND state = 'active')";
    assert_eq!(world.count(wrong).await, 0, "the guard counts the active ones");
}

#[tokio::test]
async fn property_4_after_the_first_binding_there_is_always_an_administrator_and_rows_and_tuples_agree() {
    for seed in [41, 42] {
        let world = World::start().await;
        let desk = world.position("Desk", Some(BOB));
        let group = world.group("Line", &[EVE]);
        let [alice, bob, eve] = [ALICE, BOB, EVE].map(|who| world.people[who].member);
        let subjects: [(&str, &str, Uuid); 5] = [
            ("members", "memberId", alice),
            ("members", "memberId", bob),
            ("members", "memberId", eve),
            ("positions", "positionId", desk),
            ("groups", "groupId", group),
        ];
        assert_eq!(world.bind(ADMIN, json!({ "memberId": alice })).await.status, 201);
        let mut chance = Chance::of(seed);
        let (mut last, mut done) = (0, 0);
        for round in 0..testkit::races() {
            let steps: Vec<(bool, usize, bool)> = (0..AT_ONCE)
                .map(|_| (chance.below(2) == 0, chance.below(subjects.len()), chance.below(4) == 0))
                .collect();
            let replies = join_all(steps.iter().map(async |(creates, subject, editor)| {
                let (path, name, id) = subjects[*subject];
                let tier = if *editor { "editor" } else { "admin" };
                if *creates {
                    return world.bind(ADMIN, json!({ name: id, "tier": tier })).await;
                }
                world
                    .ask_until_answered(ADMIN, "DELETE", &format!("/bindings/{path}/{id}?tier={tier}"), None)
                    .await
            }))
            .await;
            for reply in &replies {
                match told(reply) {
                    (200 | 201, _) => done += 1,
                    (409, "LAST_ADMINISTRATOR") => last += 1,
                    (409, "BINDING_EXISTS" | "CONFLICT") | (404, "NOT_FOUND") => {}
                    other => panic!("seed {seed} round {round}: {other:?} {}", reply.text),
                }
            }
            let active = "SELECT count(*) FROM helpdesk.bindings WHERE tier = 'admin' AND state = 'active'";
            assert!(world.count(active).await >= 1, "seed {seed} round {round}");
            agrees(&world).await;
        }
        assert!(done > testkit::races(), "seed {seed}: {done} done, {last} refused as the last");
    }
}
