//! Permits of a module's operations, for one object and for a worker, and what they allow: a transaction, a history, a
//! list by cursor.

use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::{FromRef, State};
use contract::id::CompanyId;
use serde_json::{Map, Value, json};
use service::audit::MAX_HISTORY;
use service::clients::authz::AuthzClient;
use service::page::{Cursor, Slice, slice};
use service::{
    ApiError, CompanyCall, Core, Data, Feature, HistoryEntry, Operation, Operations, Permit, Permits, Query,
    SystemPermit, UnreadBody,
};
use testkit::{Api, Recorded, Reply, Stub};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use crate::app::{Note, TestApp};

const CAN: &str = "/internal/authz/effective-access/can";
const READ: Feature = Feature::of_module("org.notes.read", "member");
const EDIT: Feature = Feature::of_object("org.notes.edit", "org_note", "editor");
/// Rows of the list.
const LISTED: i64 = 5;

#[derive(Clone)]
struct App {
    core: Core,
    permits: Permits,
}

impl FromRef<App> for Core {
    fn from_ref(app: &App) -> Self {
        app.core.clone()
    }
}

impl FromRef<App> for Permits {
    fn from_ref(app: &App) -> Self {
        app.permits.clone()
    }
}

fn operations() -> Operations<App> {
    Operations::of("org")
        .bind(Operation::get("/notes", "listNotes", READ), list)
        .bind(Operation::put("/notes/{noteId}", "editNote", EDIT).with_body_limit(32), edit)
        .bind(Operation::get("/notes/{noteId}/history", "listNoteHistory", READ), history)
}

async fn list(_permit: Permit, query: Query) -> Result<Data<Slice<i64>>, ApiError> {
    let cursor = Cursor::<i64>::of(&query)?;
    let rows = (0..LISTED).filter(|row| cursor.after.is_none_or(|last| *row > last));
    let rows = rows.take(usize::try_from(cursor.limit()).map_err(ApiError::internal)?).collect();
    Ok(Data(slice(&cursor, rows, |row| *row, Ok)?))
}

/// Writes the note under the object's permit, or only shows it when the permit is denied by an unrecorded probe.
async fn edit(State(app): State<App>, call: CompanyCall, body: UnreadBody) -> Result<Data<bool>, ApiError> {
    let id: Uuid = call.path.id("noteId")?;
    if call.path.id::<Uuid>("companyId")? == id {
        return Ok(Data(app.permits.probe_object(&call, &EDIT, id).await?.is_some()));
    }
    let permit = app.permits.ask_object(&call, &EDIT, id).await?;
    let Note(text) = body.read().await?.parse()?;
    let tx = permit.begin(&app.core).await?;
    tx.commit("note.edited", format!("note:{id}"), json!({ "length": text.len() })).await?;
    Ok(Data(true))
}

async fn history(State(app): State<App>, permit: Permit) -> Result<Data<Vec<HistoryEntry>>, ApiError> {
    let id: Uuid = permit.path.id("noteId")?;
    Ok(Data(permit.history(&app.core, &format!("note:{id}")).await?))
}

struct Module {
    app: TestApp,
    api: Api,
    address: SocketAddr,
    authz: Stub,
    company: CompanyId,
    _stop: DropGuard,
}

impl Module {
    async fn start() -> Self {
        let (app, authz, stop) = (TestApp::start().await, Stub::start().await, CancellationToken::new());
        let state = App {
            core: app.core.clone(),
            permits: Permits::new("org", AuthzClient::new(&authz.url(), &app.core.inside)),
        };
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let api = Api::at(address);
        let routes = operations().routes(state);
        let grace = Duration::from_secs(1);
        tokio::spawn(service::serve(app.core.clone(), routes, listener, stop.clone(), grace));
        let module = Self { app, api, address, authz, company: CompanyId::mint(), _stop: stop.drop_guard() };
        module.decide(true);
        module
    }

    fn decide(&self, allowed: bool) {
        let reason = if allowed { "ALLOWED" } else { "ENGINE_DENIED" };
        let decision = json!({ "data": { "allowed": allowed, "reason": reason, "evidence": [] } });
        self.authz.answer("POST", CAN, 200, decision);
    }

    async fn ask(&self, method: &str, tail: &str, body: Option<String>) -> Reply {
        let path = format!("/api/org/v1/companies/{}{tail}", self.company);
        let call = self.api.call(method.parse().expect("a method"), path).bearer(&self.app.token());
        let call = match body {
            Some(body) => call.header("content-type", "application/json").body(body),
            None => call,
        };
        call.send().await
    }

    async fn edit(&self, id: impl std::fmt::Display, text: &str) -> Reply {
        self.ask("PUT", &format!("/notes/{id}"), Some(json!({ "text": text }).to_string())).await
    }

    fn asked(&self) -> Vec<Recorded> {
        self.authz.requests()
    }

    async fn audited(&self) -> i64 {
        let rows = sqlx::query_scalar("SELECT count(*) FROM audit.org__events");
        rows.fetch_one(&self.app.database.owner_pool()).await.expect("a number")
    }
}

#[tokio::test]
async fn an_object_permit_is_asked_about_its_object_before_the_body_is_read() {
    let module = Module::start().await;
    let id = Uuid::now_v7();
    let past_the_limit = "a".repeat(33);
    module.decide(false);
    let reply = module.edit(id, &past_the_limit).await;
    assert_eq!((reply.status, reply.code()), (403, "AUTHORIZATION_DENIED"), "403 before 413");
    let details = reply.body.pointer("/error/details").cloned().unwrap_or_default();
    assert_eq!(details, json!({ "reason": "ENGINE_DENIED", "featureKey": EDIT.key, "relation": "editor" }));
    let question = module.asked().pop().expect("a question").body;
    assert_eq!(question["object"], json!({ "type": "org_note", "id": id }));
    assert_eq!((&question["featureKey"], &question["relation"]), (&json!(EDIT.key), &json!("editor")));
    assert_eq!(question.get("probe").unwrap_or(&Value::Null), &Value::Null, "the denial is recorded");
    assert_eq!(module.audited().await, 0);
    module.decide(true);
    let reply = module.edit(id, &past_the_limit).await;
    assert_eq!((reply.status, reply.code()), (413, "PAYLOAD_TOO_LARGE"));
    assert_eq!(module.edit(id, "a").await.status, 200, "the good case");
    assert_eq!(module.audited().await, 1);
    module.authz.close("POST", CAN);
    let reply = module.edit(id, "a").await;
    assert_eq!((reply.status, reply.code()), (503, "AUTHORIZATION_UNAVAILABLE"));
    let asked = module.asked().len();
    assert_eq!(module.edit("not-an-id", "a").await.code(), "BAD_REQUEST");
    assert_eq!(module.asked().len(), asked, "an invalid id is refused before the decision");
}

#[tokio::test]
async fn a_decision_is_asked_when_the_body_has_arrived_and_not_before() {
    const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    let module = Module::start().await;
    for (allowed, status) in [(false, "HTTP/1.1 403"), (true, "HTTP/1.1 200")] {
        module.decide(true);
        let asked = module.asked().len();
        let head = format!(
            "PUT /api/org/v1/companies/{}/notes/{} HTTP/1.1\r\nhost: a.test\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\nexpect: 100-continue\r\ncontent-length: 12\r\nconnection: close\r\n\r\n",
            module.company,
            Uuid::now_v7(),
            module.app.token()
        );
        let mut client = TcpStream::connect(module.address).await.expect("connected");
        client.write_all(head.as_bytes()).await.expect("sent");
        let mut wants = [0; CONTINUE.len()];
        client.read_exact(&mut wants).await.expect("the service waits for the body");
        assert_eq!(wants, CONTINUE);
        client.write_all(b"{\"text\":\"a").await.expect("sent");
        assert_eq!(module.asked().len(), asked, "nothing is asked yet");
        module.decide(allowed);
        client.write_all(b"\"}").await.expect("sent");
        let mut reply = String::new();
        client.read_to_string(&mut reply).await.expect("a response");
        assert!(reply.starts_with(status), "{reply}");
    }
    assert_eq!(module.audited().await, 1);
}

#[tokio::test]
async fn a_probe_of_an_object_leaves_no_denial_and_refuses_nothing() {
    let module = Module::start().await;
    for allowed in [false, true] {
        module.decide(allowed);
        let reply = module.edit(module.company, "a").await;
        assert_eq!((reply.status, reply.data()), (200, &json!(allowed)));
        assert_eq!(module.asked().pop().expect("a question").body["probe"], true);
    }
    module.authz.close("POST", CAN);
    assert_eq!(module.edit(module.company, "a").await.status, 503);
}

#[tokio::test]
async fn a_history_is_of_one_object_of_one_company_in_order() {
    let module = Module::start().await;
    let (id, other) = (Uuid::now_v7(), Uuid::now_v7());
    for text in ["a", "bb", "ccc"] {
        assert_eq!(module.edit(id, text).await.status, 200);
        assert_eq!(module.edit(other, text).await.status, 200);
    }
    let elsewhere = SystemPermit::of("note_taker", CompanyId::mint());
    let tx = elsewhere.begin(&module.app.core).await.expect("a transaction");
    tx.commit("note.edited", format!("note:{id}"), Map::new()).await.expect("committed");
    let here = SystemPermit::of("note_taker", module.company);
    let tx = here.begin(&module.app.core).await.expect("a transaction");
    tx.commit("note.archived", format!("note:{id}"), Map::new()).await.expect("committed");
    let history = module.ask("GET", &format!("/notes/{id}/history"), None).await;
    let entries = history.data().as_array().expect("a list");
    let told: Vec<_> = entries
        .iter()
        .map(|entry| (entry["action"].clone(), entry["actor"].clone(), entry["payload"].clone()))
        .collect();
    let edited = |length: usize| (json!("note.edited"), json!("alice"), json!({ "length": length }));
    let archived = (json!("note.archived"), json!("system:note_taker"), json!({}));
    assert_eq!(told, [edited(1), edited(2), edited(3), archived]);
    assert!(
        entries
            .iter()
            .all(|entry| entry["subject"] == format!("note:{id}") && entry["occurredAt"].is_string())
    );
}

#[tokio::test]
async fn a_long_history_shows_its_latest_entries() {
    let module = Module::start().await;
    let id = Uuid::now_v7();
    let rows = format!(
        "INSERT INTO audit.org__events(company_id, actor, action, subject)
         SELECT '{}', 'a', 'n' || n, 'note:{id}' FROM generate_series(1, {}) n ORDER BY n",
        module.company,
        MAX_HISTORY + 1
    );
    sqlx::raw_sql(sqlx::AssertSqlSafe(rows)).execute(&module.app.database.owner_pool()).await.expect("rows");
    let history = module.ask("GET", &format!("/notes/{id}/history"), None).await;
    let entries = history.data().as_array().expect("a list");
    let action = |entry: Option<&Value>| entry.map(|entry| entry["action"].clone());
    assert_eq!((entries.len(), action(entries.first())), (MAX_HISTORY, Some(json!("n2"))));
    assert_eq!(action(entries.last()), Some(json!(format!("n{}", MAX_HISTORY + 1))));
}

#[tokio::test]
async fn a_list_is_read_on_from_where_its_last_slice_ended() {
    let module = Module::start().await;
    let (mut seen, mut query) = (Vec::new(), "?pageSize=2".to_owned());
    loop {
        let reply = module.ask("GET", &format!("/notes{query}"), None).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
        let items = reply.data()["items"].as_array().expect("items").clone();
        seen.extend(items.iter().filter_map(Value::as_i64));
        let Some(next) = reply.data()["next"].as_str() else { break };
        query = format!("?pageSize=2&cursor={next}");
    }
    assert_eq!(seen, (0..LISTED).collect::<Vec<_>>());
    let wrong = module.ask("GET", "/notes?pageSize=101&cursor=x", None).await;
    assert_eq!(wrong.wrong_fields().len(), 2, "{}", wrong.text);
}
