//! A module's responses, operation × status, through the gateway over TLS and against PostgreSQL: a company with
//! people, the test's calls, each checked against the module's document and counted, and everything that all modules
//! have in common. `faults.rs` has the responses that every operation shares, `isolation.rs` calls with ids of another
//! company.

pub(crate) mod faults;
pub(crate) mod isolation;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::Value;
use testkit::OpenApi;

use crate::harness::login::subject;
use crate::harness::{Api, Reply, Separate};
use crate::statuses::{Rows, Table, filled};
use crate::tour::{create_company, create_member, link};

/// Prefix of the operations' paths in the document. Probes cannot be reached through the gateway.
const COMPANY: &str = "/v1/companies/{companyId}";
/// A token lives five minutes; on a busy machine the table takes longer.
const TOKEN_AGE: Duration = Duration::from_mins(3);
/// A non-existent id.
pub(crate) const NOTHING: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// The caller.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Who {
    /// No bearer.
    Nobody,
    /// An invalid bearer.
    Forged,
    /// A login that is not a member of the company.
    Bob,
    /// A plain member.
    Alice,
    /// A member who is the platform's superadmin, and so holds every relation.
    Admin,
}

/// The input of a call besides the route.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    /// Values of the path's parameters after the company, in order.
    pub(crate) ids: Vec<String>,
    /// The query, including its `?`.
    pub(crate) query: String,
    pub(crate) body: Option<Value>,
    /// An additional header.
    pub(crate) header: Option<(&'static str, &'static str)>,
}

impl Call {
    pub(crate) fn of(body: Value) -> Self {
        Self { body: Some(body), ..Self::default() }
    }

    pub(crate) fn about(id: &str) -> Self {
        Self { ids: vec![id.to_owned()], ..Self::default() }
    }

    pub(crate) fn asking(query: &str) -> Self {
        Self { query: query.to_owned(), ..Self::default() }
    }

    pub(crate) fn with(self, body: Value) -> Self {
        Self { body: Some(body), ..self }
    }
}

/// What a scene needs to know about a module. The value holds the rows that calls use.
pub(crate) trait Module: Default {
    const KEY: &'static str;
    /// Its OpenAPI file.
    const DOCUMENT: &'static str;
    /// An operation that answers 200 to its sample.
    const READ: &'static str;
    /// Operations that only other services answer: they need none of the module's tables.
    const WITHOUT_TABLES: &'static [&'static str] = &[];

    /// Creates the rows through the module's operations.
    async fn prepare(scene: &mut Scene<Self>);

    /// A call of the operation that the document allows and that the superadmin may make.
    fn sample(scene: &Scene<Self>, operation: &str) -> Call;

    /// Queries and bodies with invalid values, each of which is a `VALIDATION_ERROR`.
    fn wrong_values() -> Vec<(&'static str, Call)>;
}

/// The running platform and its company.
pub(crate) struct Scene<M> {
    pub(crate) platform: Separate,
    nobody: Api,
    forged: Api,
    bob: Api,
    alice: Api,
    pub(crate) admin: Api,
    pub(crate) company: String,
    /// Member ids.
    pub(crate) alice_member: String,
    pub(crate) admin_member: String,
    pub(crate) rows: M,
    document: OpenApi,
    logged_in: Instant,
    table: Table,
    refusals: BTreeSet<String>,
}

impl<M: Module> Scene<M> {
    pub(crate) async fn start(name: &str) -> Self {
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
        let document = OpenApi::parse(M::DOCUMENT);
        let (table, refusals) = (Table::new(rows(&document)), BTreeSet::new());
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
            rows: M::default(),
            document,
            logged_in,
            table,
            refusals,
        };
        M::prepare(&mut scene).await;
        scene
    }

    /// Every operation of the document, as `METHOD /tail`.
    pub(crate) fn operations(&self) -> Vec<(String, BTreeSet<u16>)> {
        self.table.rows()
    }

    /// A call of the operation that the document allows and that the superadmin may make.
    pub(crate) fn sample(&self, operation: &str) -> Call {
        M::sample(self, operation)
    }

    /// Makes a call, expects this success, and returns the response's data.
    pub(crate) async fn expect(&mut self, who: Who, status: u16, operation: &str, call: Call) -> Value {
        self.refused(who, status, "", operation, call).await["data"].clone()
    }

    /// Makes a call and expects this status and word: `details.reason` for a generic code, else the code.
    pub(crate) async fn refused(
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

    /// As above, under the path of another company.
    pub(crate) async fn called_at(
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

    /// Makes a call, checks the response against the document and counts it.
    pub(crate) async fn answer(&mut self, company: &str, who: Who, operation: &str, call: Call) -> Reply {
        if self.logged_in.elapsed() > TOKEN_AGE {
            self.log_in().await;
        }
        let reply = self.ask(company, who, operation, call).await;
        self.count(operation, &reply);
        reply
    }

    /// Makes a call and checks the response against the document.
    pub(crate) async fn ask(&self, company: &str, who: Who, operation: &str, call: Call) -> Reply {
        let (method, tail) = operation.split_once(' ').expect("a method and a tail");
        let ids: Vec<&str> = [company].into_iter().chain(call.ids.iter().map(String::as_str)).collect();
        let path = filled(&format!("{COMPANY}{tail}"), &ids);
        let mut api = self.api(who).clone();
        if let Some((name, value)) = call.header {
            api = api.with_header(name, value);
        }
        let wanted = format!("/api/{}{path}{}", M::KEY, call.query);
        let reply = api.send(method.parse::<Method>().expect("a method"), &wanted, call.body).await;
        let fits = self.document.check_response(method, &path, reply.status.as_u16(), &reply.body);
        fits.unwrap_or_else(|error| panic!("{operation}: {} {error:#}\n{}", reply.status, reply.body));
        reply
    }

    pub(crate) fn count(&mut self, operation: &str, reply: &Reply) {
        self.table.count(operation, reply.status.as_u16());
        self.refusals.insert(word(&reply.body["error"]));
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

    /// Changes rows in ways that no route does.
    pub(crate) async fn execute(&self, sql: String) {
        let owner = self.platform.owner();
        sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&owner).await.expect("the owner may");
        owner.close().await;
    }

    pub(crate) fn print_and_compare(&self) {
        self.table.print_and_compare();
        let shown: BTreeSet<String> = self.document.refusals().into_iter().map(word).collect();
        let missing: Vec<&String> = shown.difference(&self.refusals).collect();
        assert!(missing.is_empty(), "the document shows refusals that never came: {missing:?}");
        println!("{} refusals shown as examples: every one came", shown.len());
    }
}

/// The operations with their documented statuses.
fn rows(document: &OpenApi) -> Rows {
    let rows = document.operations().into_iter().filter_map(|operation| {
        let statuses = document.statuses(&operation).expect("the document is whole");
        let (method, path) = operation.split_once(' ')?;
        Some((format!("{method} {}", path.strip_prefix(COMPANY)?), statuses.into_iter().collect()))
    });
    rows.collect()
}

/// The word that identifies a refusal: the code, or the reason if the code is generic.
fn word(error: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let code = text(&error["code"]);
    let reason = text(&error["details"]["reason"]);
    let generic = matches!(code.as_str(), "VALIDATION_FAILED" | "AUTHORIZATION_DENIED");
    if generic && !reason.is_empty() { reason } else { code }
}

/// The `id` of a created row.
pub(crate) fn id(made: &Value) -> String {
    made["id"].as_str().expect("an id").to_owned()
}
