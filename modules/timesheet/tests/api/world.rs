//! A company of several people, each with a login and rights of its own, whose weeks are entered, submitted and decided.

use std::ops::Deref;

use serde_json::{Value, json};
use testkit::{Holder, ModuleApi, Person, Reply};

use crate::start;

/// Who asks: a place in [`World::people`].
pub(crate) type Name = usize;

/// The module and its people.
pub(crate) struct World {
    world: testkit::World,
    pub(crate) people: Vec<Person>,
}

impl Deref for World {
    type Target = testkit::World;

    fn deref(&self) -> &testkit::World {
        &self.world
    }
}

impl World {
    /// A company in which each person was given these relations beside what every member holds.
    pub(crate) async fn of(rights: &[&[&str]]) -> Self {
        Self::around(start().await, rights)
    }

    /// The same around a module that runs.
    pub(crate) fn around(module: ModuleApi, rights: &[&[&str]]) -> Self {
        let world = testkit::World::around(module, timesheet::BUNDLE.fragment);
        let mut people = Vec::new();
        for (at, relations) in rights.iter().enumerate() {
            let person = world.person(&at.to_string());
            for relation in *relations {
                world.grant(relation, Holder::Person(&person));
            }
            people.push(person);
        }
        Self { world, people }
    }

    /// Asks as this person, and checks that the document allows the answer.
    pub(crate) async fn ask(&self, who: Name, method: &str, tail: &str, body: Option<Value>) -> Reply {
        self.world.ask(&self.people[who], method, tail, body).await
    }

    /// A new project's id; the first person must be an editor.
    pub(crate) async fn project(&self, code: &str) -> String {
        let made = self.ask(0, "POST", "/projects", Some(json!({ "code": code, "name": "n" }))).await;
        assert_eq!(made.status, 201, "{}", made.text);
        id(&made)
    }

    /// Changes the settings; the first person must be an administrator.
    pub(crate) async fn rules(&self, body: Value) -> Reply {
        self.ask(0, "PUT", "/settings", Some(body)).await
    }

    pub(crate) async fn submit(&self, who: Name, week: &str) -> Reply {
        self.ask(who, "POST", "/submissions", Some(json!({ "weekStart": week }))).await
    }

    pub(crate) async fn put(&self, who: Name, project: &str, day: &str, real: f64, billable: f64) -> Reply {
        let body =
            json!({ "projectId": project, "entryDate": day, "realHours": real, "billableHours": billable });
        self.ask(who, "PUT", "/time-entries", Some(body)).await
    }

    /// `approve`, `reject` or `revert`.
    pub(crate) async fn step(&self, who: Name, submission: &str, name: &str) -> Reply {
        let body = (name == "reject").then(|| json!({ "reason": "Tuesday is missing" }));
        self.ask(who, "POST", &format!("/submissions/{submission}/{name}"), body).await
    }

    /// Makes one person the approver of another; the first person must be an administrator.
    pub(crate) async fn assign(&self, member: Name, approver: Name) -> Reply {
        let [member, approver] = [member, approver].map(|at| self.people[at].member);
        let body = json!({ "memberId": member, "approverMemberId": approver });
        self.ask(0, "PUT", "/member-approvers", Some(body)).await
    }

    /// One number of the database.
    pub(crate) async fn count(&self, sql: String) -> i64 {
        let pool = self.module.database.owner_pool();
        sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&pool).await.expect("a count")
    }

    /// The submissions are whole: each week's versions are 1 to n, one of them current and that the last, each takes the
    /// place of the one before, all have one root, no member decided an own week, and lists know how many there are.
    pub(crate) async fn submissions_are_whole(&self) {
        let torn = "SELECT count(*) FROM (
              SELECT 1 FROM timesheet.submissions GROUP BY company_id, member_id, week_start
              HAVING count(*) FILTER (WHERE is_current) <> 1 OR max(version_number) <> count(*)
                OR count(DISTINCT root_id) <> 1
                OR max(version_number) <> max(version_number) FILTER (WHERE is_current)
              UNION ALL
              SELECT 1 FROM timesheet.submissions s
              LEFT JOIN timesheet.submissions b ON b.id = s.supersedes_id
              WHERE s.version_number > 1 AND (b.id IS NULL OR b.version_number <> s.version_number - 1
                OR b.root_id <> s.root_id OR b.member_id <> s.member_id OR b.week_start <> s.week_start
                OR b.status NOT IN ('rejected', 'reverted'))
              UNION ALL
              SELECT 1 FROM timesheet.submissions WHERE status IN ('approved', 'rejected') AND decided_by = submitted_by
              UNION ALL
              SELECT 1 FROM (SELECT company_id, coalesce(assigned_approver_member_id, uuid_nil) AS approver, week_start,
                  count(*) AS n FROM timesheet.submissions,
                  (SELECT '00000000-0000-0000-0000-000000000000'::uuid AS uuid_nil) none GROUP BY 1, 2, 3
                UNION ALL SELECT company_id, 'ffffffff-ffff-ffff-ffff-ffffffffffff', week_start, count(*)
                FROM timesheet.submissions GROUP BY 1, 3) a
              FULL JOIN (SELECT * FROM timesheet.submission_weeks WHERE submissions > 0) c
                ON c.company_id = a.company_id AND c.approver_member_id = a.approver AND c.week_start = a.week_start
              WHERE a.n IS DISTINCT FROM c.submissions) AS wrong";
        assert_eq!(self.count(torn.to_owned()).await, 0, "a chain of versions or a count is wrong");
    }
}

/// The `id` of what was made.
pub(crate) fn id(made: &Reply) -> String {
    made.data()["id"].as_str().expect("an id").to_owned()
}
