//! The derived tuples equal their definition after any history, and the start-up pass repairs any other difference.

use std::collections::BTreeSet;

use http::Method;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::json;

use testkit::until;

use crate::support::Org;
use crate::units::futures;

/// A step of a history; the numbers select one of three members, subjects, positions and groups.
#[derive(Clone, Copy, Debug)]
enum Step {
    Link(usize, usize),
    Unlink(usize),
    SetActive(usize, bool),
    Assign(usize, usize),
    Remove(usize, usize),
    Add(usize, usize),
    End,
}

fn step() -> impl Strategy<Value = Step> {
    let three = 0..3_usize;
    prop_oneof![
        3 => (three.clone(), three.clone()).prop_map(|(member, subject)| Step::Link(member, subject)),
        2 => three.clone().prop_map(Step::Unlink),
        3 => (three.clone(), proptest::bool::ANY).prop_map(|(member, active)| Step::SetActive(member, active)),
        3 => (three.clone(), three.clone()).prop_map(|(position, member)| Step::Assign(position, member)),
        3 => (three.clone(), three.clone()).prop_map(|(group, member)| Step::Add(group, member)),
        1 => (three.clone(), three).prop_map(|(group, member)| Step::Remove(group, member)),
        1 => Just(Step::End),
    ]
}

struct World {
    org: Org,
    members: Vec<String>,
    positions: Vec<String>,
    groups: Vec<String>,
}

impl World {
    async fn start() -> Self {
        let org = Org::start().await;
        let company = org.company("ACME").await;
        let mut world = Self { org, members: vec![], positions: vec![], groups: vec![] };
        for number in 0..3 {
            let code = format!("x{number}");
            world.members.push(world.org.member(&company, &code).await);
            world.positions.push(world.org.position(&company, &code).await);
            world.groups.push(world.org.group(&company, &code).await);
        }
        world
    }

    async fn take(&self, step: Step) {
        let admin = "/internal/org/admin";
        let reply = match step {
            Step::Link(member, subject) => self.org.link(&self.members[member], &format!("s{subject}")).await,
            Step::Unlink(member) => {
                self.org.delete(&format!("{admin}/members/{}/link-user", self.members[member])).await
            }
            Step::SetActive(member, active) => {
                self.org
                    .put(&format!("{admin}/members/{}", self.members[member]), json!({ "isActive": active }))
                    .await
            }
            Step::Assign(position, member) => {
                let path = format!("{admin}/positions/{}/assignments", self.positions[position]);
                self.org.post(&path, json!({ "memberId": self.members[member] })).await
            }
            Step::Add(group, member) => {
                let path = format!("{admin}/groups/{}/members", self.groups[group]);
                self.org.post(&path, json!({ "memberId": self.members[member] })).await
            }
            Step::Remove(group, member) => {
                self.org
                    .delete(&format!(
                        "{admin}/groups/{}/members/{}",
                        self.groups[group], self.members[member]
                    ))
                    .await
            }
            Step::End => self.end_any().await,
        };
        assert!(reply.status < 500, "{step:?}: {}", reply.text);
    }

    async fn end_any(&self) -> testkit::Reply {
        let open: Option<uuid::Uuid> =
            sqlx::query_scalar("SELECT id FROM org.assignments WHERE valid_to IS NULL LIMIT 1")
                .fetch_optional(&self.org.owner)
                .await
                .expect("assignments");
        let id = open.unwrap_or_else(uuid::Uuid::now_v7);
        self.org.send(Method::POST, &format!("/internal/org/admin/assignments/{id}/end"), None).await
    }

    /// The expected tuples, computed from the rows.
    async fn defined(&self) -> BTreeSet<String> {
        let members: Vec<(String, String, String)> =
            self.rows("SELECT id::text, company_id::text, user_id FROM org.members WHERE is_active AND user_id IS NOT NULL").await;
        let terms: Vec<(String, String, String)> = self
            .rows("SELECT member_id::text, position_id::text, '' FROM org.assignments WHERE valid_to IS NULL")
            .await;
        let groups: Vec<(String, String, String)> =
            self.rows("SELECT member_id::text, group_id::text, '' FROM org.group_members").await;
        let mut tuples = BTreeSet::new();
        for (id, company, subject) in members {
            tuples.insert(format!("company:{company}#member@user:{subject}"));
            for (_, position, _) in terms.iter().filter(|(member, ..)| *member == id) {
                tuples.insert(format!("position:{position}#holder@user:{subject}"));
            }
            for (_, group, _) in groups.iter().filter(|(member, ..)| *member == id) {
                tuples.insert(format!("group:{group}#member@user:{subject}"));
            }
        }
        tuples
    }

    async fn rows(&self, sql: &'static str) -> Vec<(String, String, String)> {
        sqlx::query_as(sql).fetch_all(&self.org.owner).await.expect(sql)
    }

    async fn stored(&self) -> BTreeSet<String> {
        self.org.tuples("org").await.into_iter().collect()
    }
}

#[tokio::test]
async fn property_3_after_any_history_the_tuples_are_what_the_rows_say() {
    let world = World::start().await;
    let mut runner = TestRunner::deterministic();
    let history = proptest::collection::vec(proptest::collection::vec(step(), 1..5), 8..12);
    for _ in 0..12 {
        let history = history.new_tree(&mut runner).expect("a history").current();
        for together in &history {
            // The steps of one entry run concurrently; the result must be right in any order.
            futures(together.iter().map(|step| world.take(*step)).collect()).await;
            assert_eq!(world.stored().await, world.defined().await, "after {together:?} of {history:?}");
        }
    }
    assert!(!world.stored().await.is_empty() || !world.org.audit().await.is_empty());
}

#[tokio::test]
async fn unlinking_and_deactivating_at_once_leave_no_tuple() {
    let world = World::start().await;
    for _ in 0..20 {
        world.take(Step::SetActive(0, true)).await;
        world.take(Step::Link(0, 0)).await;
        futures(vec![
            world.take(Step::Unlink(0)),
            world.take(Step::SetActive(0, false)),
            world.take(Step::Link(0, 0)),
        ])
        .await;
        assert_eq!(world.stored().await, world.defined().await);
    }
}

#[tokio::test]
async fn a_change_that_waited_for_another_sees_what_that_one_left() {
    let World { org, members, .. } = &World::start().await;
    // An uncommitted link of the same member.
    let mut link = org.owner.begin().await.expect("a transaction");
    let company: String = sqlx::query_scalar(
        "UPDATE org.members SET user_id = 'alice' WHERE id = $1::uuid RETURNING company_id::text",
    )
    .bind(&members[0])
    .fetch_one(&mut *link)
    .await
    .expect("linked");
    sqlx::query("INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, source) VALUES ('company', $1, 'member', 'user', 'alice', 'org')")
        .bind(company)
        .execute(&mut *link)
        .await
        .expect("its tuple");
    let path = format!("/internal/org/admin/members/{}", members[0]);
    let deactivation = org.put(&path, json!({ "isActive": false }));
    let commit = async {
        until("the deactivation waits", || async { waiting(org).await == 1 }).await;
        link.commit().await.expect("committed");
    };
    let (reply, ()) = tokio::join!(deactivation, commit);
    assert_eq!((reply.status, &reply.data()["userId"]), (200, &json!("alice")));
    assert!(org.tuples("org").await.is_empty(), "an inactive member has no tuple");
}

/// Number of org's statements that wait for a lock.
async fn waiting(org: &Org) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'platform_org' AND wait_event_type = 'Lock'")
        .fetch_one(&org.owner)
        .await
        .expect("a count")
}

#[tokio::test]
async fn the_start_up_pass_repairs_and_reports_what_differs() {
    let world = World::start().await;
    world.take(Step::Link(0, 0)).await;
    world.take(Step::Link(1, 1)).await;
    world.take(Step::Assign(0, 0)).await;
    let World { org, .. } = &world;
    let position = &world.positions[1];
    let strays = [
        ("DELETE FROM authz.tuple WHERE subject_id = 's1'", String::new()),
        (
            "INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, source) VALUES ('position', $1, 'holder', 'user', 'evil', 'org')",
            position.clone(),
        ),
        (
            "INSERT INTO authz.tuple(object_type, object_id, relation, subject_type, subject_id, source) VALUES ('group', $1, 'member', 'user', 'evil', 'org')",
            "nothing".to_owned(),
        ),
    ];
    for (sql, id) in strays {
        let query = sqlx::query(sql);
        let query = if id.is_empty() { query } else { query.bind(id) };
        query.execute(&org.owner).await.expect(sql);
    }
    assert_ne!(world.stored().await, world.defined().await);
    let second = Org::start_on(org.database.clone()).await;
    until("repaired", || async { world.stored().await == world.defined().await }).await;
    let repairs: Vec<String> =
        second.audit().await.into_iter().filter(|row| row.contains("tuples.repaired")).collect();
    assert_eq!(repairs.len(), 3, "one missing, one extra, one orphan: {repairs:?}");
    assert!(repairs.iter().all(|row| row.starts_with("system:tuple-repair ")));
    let third = Org::start_on(org.database.clone()).await;
    // One step each for members and the tuples of companies, positions and groups.
    let succeeded = |line: &str| {
        line.contains("worker=\"tuple_repair\"") && line.contains("\"succeeded\"") && line.ends_with("} 4")
    };
    until("each part was compared", || async {
        third.api.get("/metrics").send().await.text.lines().any(succeeded)
    })
    .await;
    assert_eq!(
        third.audit().await.iter().filter(|row| row.contains("repaired")).count(),
        3,
        "no further repair"
    );
}
