//! A company of several people, each with a login and rights of its own: authz answers by the bearer that it is sent,
//! org by the subject that it is asked about.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use testkit::module::CAN;
use testkit::{ModuleApi, Reply};
use uuid::Uuid;

use crate::start;
use crate::support::{know_directory, know_members};

/// What every active member holds.
const OF_MEMBERS: [&str; 2] = ["member", "submitter"];

/// Who asks: a place in [`World::people`].
pub(crate) type Name = usize;

/// Somebody with a login.
pub(crate) struct Person {
    pub(crate) member: Uuid,
    pub(crate) subject: String,
    token: String,
}

/// The module and its people.
pub(crate) struct World {
    pub(crate) module: ModuleApi,
    pub(crate) people: Vec<Person>,
}

impl World {
    /// A company in which each person holds these relations beside those of every member.
    pub(crate) async fn of(rights: &[&[&'static str]]) -> Self {
        Self::around(start().await, rights)
    }

    /// The same around a module that runs.
    pub(crate) fn around(module: ModuleApi, rights: &[&[&'static str]]) -> Self {
        let person = |at: usize| {
            let subject = format!("subject-{at}");
            Person { member: Uuid::now_v7(), token: module.issuer.issue(&subject), subject }
        };
        let people: Vec<Person> = (0..rights.len()).map(person).collect();
        for person in &people {
            place(&module, &person.subject, person.member);
        }
        let members: Vec<Uuid> = people.iter().map(|person| person.member).collect();
        know_directory(&module, &members);
        know_members(&module, members, vec![]);
        let held = people.iter().zip(rights).map(|(person, rights)| {
            (format!("Bearer {}", person.token), rights.iter().chain(&OF_MEMBERS).copied().collect())
        });
        decide_by_bearer(&module, held.collect());
        Self { module, people }
    }

    /// Asks as this person, and checks that the document allows the answer.
    pub(crate) async fn ask(&self, who: Name, method: &str, tail: &str, body: Option<Value>) -> Reply {
        let path = self.module.path(self.module.company, tail);
        let call =
            self.module.api.call(method.parse().expect("a method"), path).bearer(&self.people[who].token);
        let call = match body {
            Some(body) => call.json(body),
            None => call,
        };
        self.module.send(method, tail, call).await
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

fn place(module: &ModuleApi, subject: &str, member: Uuid) {
    let path = format!("/internal/org/companies/{}/members/by-kcsub/{subject}/context", module.company);
    let place = json!({ "data": { "isMember": true, "isActive": true, "memberId": member, "displayName": subject,
        "email": null, "positionIds": [], "groupIds": [] } });
    module.org.answer("GET", &path, 200, place);
}

fn decide_by_bearer(module: &ModuleApi, held: HashMap<String, Vec<&'static str>>) {
    let held = Arc::new(Mutex::new(held));
    module.authz.answer_with("POST", CAN, move |request| {
        let bearer =
            request.headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let held = held.lock().unwrap_or_else(PoisonError::into_inner);
        let rights = held.get(bearer).map(Vec::as_slice).unwrap_or_default();
        let allowed = request.body["relation"].as_str().is_some_and(|relation| {
            rights.contains(&relation) || (relation == "viewer" && rights.contains(&"approver"))
        });
        let reason = if allowed { "ALLOWED" } else { "ENGINE_DENIED" };
        (200, json!({ "data": { "allowed": allowed, "reason": reason, "evidence": [] } }))
    });
}
