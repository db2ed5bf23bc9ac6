//! A company with people, rows to call about, and the count of what came.

use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use contract::Clock;
use reqwest::Method;
use serde_json::{Value, json};
use testkit::OpenApi;

use crate::harness::login::subject;
use crate::harness::{Api, Reply, Separate};
use crate::statuses::{Rows, Table, filled};
use crate::tour::{create_company, create_member, link};

/// The module's document.
static DOCUMENT: LazyLock<OpenApi> =
    LazyLock::new(|| OpenApi::parse(include_str!("../../../modules/timesheet/openapi.json")));
/// What the document's paths of operations begin with, and what stands before them on the wire. Probes are not reached
/// through the edge.
const COMPANY: &str = "/v1/companies/{companyId}";
const BASE: &str = "/api/timesheet";
/// A token lives five minutes; on a busy machine the table takes longer.
const TOKEN_AGE: Duration = Duration::from_mins(3);
/// An id of nothing.
pub(super) const NOTHING: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// Who calls.
#[derive(Clone, Copy, Debug)]
pub(super) enum Who {
    /// Without a bearer.
    Nobody,
    /// With one that does not verify.
    Forged,
    /// With a login, and no member of the company.
    Bob,
    /// A plain member.
    Alice,
    /// A member who is the platform's superadmin, and so holds every relation.
    Admin,
}

/// What is sent beside the route.
#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    /// Fill the path's parameters after the company, in order.
    pub(super) ids: Vec<String>,
    /// With its `?`.
    pub(super) query: String,
    pub(super) body: Option<Value>,
    /// One more header.
    pub(super) header: Option<(&'static str, &'static str)>,
}

impl Call {
    pub(super) fn of(body: Value) -> Self {
        Self { body: Some(body), ..Self::default() }
    }

    pub(super) fn about(id: &str) -> Self {
        Self { ids: vec![id.to_owned()], ..Self::default() }
    }

    pub(super) fn asking(query: &str) -> Self {
        Self { query: query.to_owned(), ..Self::default() }
    }

    pub(super) fn with(self, body: Value) -> Self {
        Self { body: Some(body), ..self }
    }
}

/// The running platform and its company.
pub(super) struct Scene {
    pub(super) platform: Separate,
    nobody: Api,
    forged: Api,
    bob: Api,
    alice: Api,
    pub(super) admin: Api,
    pub(super) company: String,
    /// Member ids.
    pub(super) alice_member: String,
    pub(super) admin_member: String,
    pub(super) project: String,
    /// Alice's, which waits for a decision.
    pub(super) submission: String,
    logged_in: Instant,
    table: Table,
    refusals: BTreeSet<String>,
}

impl Scene {
    pub(super) async fn start(name: &str) -> Self {
        let platform = Separate::start(name).await;
        let logged_in = Instant::now();
        let api = platform.api();
        let tokens =
            [platform.token("admin").await, platform.token("alice").await, platform.token("bob").await];
        let [admin, alice, bob] = [0, 1, 2].map(|at: usize| api.with_token(&tokens[at]));
        for known in [&admin, &alice, &bob] {
            known.get("/api/org/me/companies").await.data(200);
        }
        let company = create_company(&admin, "ACME").await;
        let [admin_member, alice_member] =
            [create_member(&admin, &company, "ADMIN").await, create_member(&admin, &company, "ALICE").await];
        link(&admin, &admin_member, &subject(&tokens[0])).await;
        link(&admin, &alice_member, &subject(&tokens[1])).await;
        let (nobody, forged) = (api.clone(), api.with_token("a.b.c"));
        let (table, refusals) = (Table::new(rows()), BTreeSet::new());
        let (project, submission) = (String::new(), String::new());
        let mut scene = Self {
            platform,
            nobody,
            forged,
            bob,
            alice,
            admin,
            company,
            alice_member,
            admin_member,
            project,
            submission,
            logged_in,
            table,
            refusals,
        };
        scene.project = scene.make_project("WEB").await;
        let week = json!({ "weekStart": monday(-1) });
        scene.submission = id(&scene.expect(Who::Alice, 201, "POST /submissions", Call::of(week)).await);
        scene
    }

    pub(super) async fn make_project(&mut self, code: &str) -> String {
        let body = json!({ "code": code, "name": "A project" });
        id(&self.expect(Who::Admin, 201, "POST /projects", Call::of(body)).await)
    }

    /// Every operation of the document, as `METHOD /tail`.
    pub(super) fn operations(&self) -> Vec<(String, BTreeSet<u16>)> {
        self.table.rows()
    }

    /// A call of the operation that its document allows and that the superadmin may make.
    pub(super) fn sample(&self, operation: &str) -> Call {
        let week = monday(-1);
        match operation {
            "GET /settings" | "GET /projects" | "GET /member-approvers" | "GET /submissions" => {
                Call::default()
            }
            "PUT /settings" => Call::of(json!({ "allowedPreviousWeeks": 8 })),
            "POST /projects" => Call::of(json!({ "code": "SAMPLE", "name": "A project" })),
            "PUT /projects/{projectId}" => {
                Call::about(&self.project).with(json!({ "code": "WEB", "name": "Web shop" }))
            }
            "PUT /member-approvers" => {
                Call::of(json!({ "memberId": self.alice_member, "approverMemberId": self.admin_member }))
            }
            "GET /time-entries" => Call::asking(&format!("?weekStart={week}")),
            "PUT /time-entries" => {
                Call::of(json!({ "projectId": self.project, "entryDate": week, "realHours": 1 }))
            }
            "POST /submissions" => Call::of(json!({ "weekStart": week })),
            "POST /submissions/{submissionId}/approve"
            | "POST /submissions/{submissionId}/revert"
            | "GET /submissions/{submissionId}/entries" => Call::about(&self.submission),
            "POST /submissions/{submissionId}/reject" => {
                Call::about(&self.submission).with(json!({ "reason": "Tuesday is missing" }))
            }
            "POST /submissions/approve-batch" => Call::of(json!({ "submissionIds": [self.submission] })),
            "PUT /time-entries/week" => Call::of(json!({ "weekStart": week, "entries": [] })),
            "GET /weeks/{weekStart}/overview" => Call::about(&week),
            "GET /reports/hours" => Call::asking(&format!("?from={week}&to={week}")),
            _ => panic!("{operation} is not known to this test"),
        }
    }

    /// Calls, expects this success, and gives the answer's data.
    pub(super) async fn expect(&mut self, who: Who, status: u16, operation: &str, call: Call) -> Value {
        self.refused(who, status, "", operation, call).await["data"].clone()
    }

    /// Calls and expects this status, with this word: `details.reason` where the code is generic, else the code.
    pub(super) async fn refused(
        &mut self,
        who: Who,
        status: u16,
        word: &str,
        operation: &str,
        call: Call,
    ) -> Value {
        let company = self.company.clone();
        self.called_at(&company, who, (status, word), operation, call).await
    }

    /// The same under the path of another company.
    pub(super) async fn called_at(
        &mut self,
        company: &str,
        who: Who,
        (status, expected): (u16, &str),
        operation: &str,
        call: Call,
    ) -> Value {
        let shown = format!("{who:?} {operation} {call:?}");
        let reply = self.answer(company, who, operation, call).await;
        assert_eq!(
            (reply.status.as_u16(), word(&reply.body["error"])),
            (status, expected.to_owned()),
            "{shown}: {}",
            reply.body
        );
        reply.body
    }

    /// Sends a call, holds the answer against the document and counts it.
    pub(super) async fn answer(&mut self, company: &str, who: Who, operation: &str, call: Call) -> Reply {
        let (method, tail) = operation.split_once(' ').expect("a method and a tail");
        let ids: Vec<&str> = [company].into_iter().chain(call.ids.iter().map(String::as_str)).collect();
        let path = filled(&format!("{COMPANY}{tail}"), &ids);
        if self.logged_in.elapsed() > TOKEN_AGE {
            self.log_in().await;
        }
        let mut api = self.api(who).clone();
        if let Some((name, value)) = call.header {
            api = api.with_header(name, value);
        }
        let wanted = format!("{BASE}{path}{}", call.query);
        let reply = api.send(method.parse::<Method>().expect("a method"), &wanted, call.body).await;
        let fits = DOCUMENT.check_response(method, &path, reply.status.as_u16(), &reply.body);
        fits.unwrap_or_else(|error| panic!("{operation}: {} {error:#}\n{}", reply.status, reply.body));
        self.table.count(operation, reply.status.as_u16());
        self.refusals.insert(word(&reply.body["error"]));
        reply
    }

    async fn log_in(&mut self) {
        self.logged_in = Instant::now();
        self.admin = self.admin.with_token(&self.platform.token("admin").await);
        self.alice = self.alice.with_token(&self.platform.token("alice").await);
        self.bob = self.bob.with_token(&self.platform.token("bob").await);
    }

    const fn api(&self, who: Who) -> &Api {
        match who {
            Who::Nobody => &self.nobody,
            Who::Forged => &self.forged,
            Who::Bob => &self.bob,
            Who::Alice => &self.alice,
            Who::Admin => &self.admin,
        }
    }

    /// Changes rows as no route does.
    pub(super) async fn execute(&self, sql: String) {
        let owner = self.platform.owner();
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&owner).await.expect("the owner may");
        owner.close().await;
    }

    pub(super) fn print_and_compare(&self) {
        self.table.print_and_compare();
        let shown: BTreeSet<String> = DOCUMENT.refusals().into_iter().map(word).collect();
        let missing: Vec<&String> = shown.difference(&self.refusals).collect();
        assert!(missing.is_empty(), "the document shows refusals that never came: {missing:?}");
        println!("{} refusals shown as examples: every one came", shown.len());
    }
}

/// The operations with their documented statuses.
fn rows() -> Rows {
    let rows = DOCUMENT.operations().into_iter().filter_map(|operation| {
        let statuses = DOCUMENT.statuses(&operation).expect("the document is whole");
        let (method, path) = operation.split_once(' ')?;
        Some((format!("{method} {}", path.strip_prefix(COMPANY)?), statuses.into_iter().collect()))
    });
    rows.collect()
}

/// What tells a refusal from others: the code, or the reason where the code is generic.
fn word(error: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let code = text(&error["code"]);
    let reason = text(&error["details"]["reason"]);
    let generic = matches!(code.as_str(), "VALIDATION_FAILED" | "AUTHORIZATION_DENIED");
    if generic && !reason.is_empty() { reason } else { code }
}

/// The `id` of what was made.
pub(super) fn id(made: &Value) -> String {
    made["id"].as_str().expect("an id").to_owned()
}

/// The Monday so many weeks from this one, as UTC counts.
pub(super) fn monday(weeks: i32) -> String {
    day(weeks, 0)
}

/// A day of the week so many weeks from this one; 0 is Monday. Tests stay away from the edges of the window of open
/// weeks, for the week may turn while they run.
pub(super) fn day(weeks: i32, day: i32) -> String {
    const DAY: Duration = Duration::from_hours(24);
    let today = Clock::system().now().date();
    let days = weeks * 7 + day - i32::from(today.weekday().number_days_from_monday());
    let far = DAY * days.unsigned_abs();
    (if days < 0 { today - far } else { today + far }).to_string()
}
