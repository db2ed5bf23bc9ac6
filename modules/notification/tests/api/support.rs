//! Helpers for the tests of several resources.

use std::time::{Duration, Instant};

use http::{Response, StatusCode};
use serde_json::{Value, json};
use testkit::module::SUBJECT;
use testkit::{ModuleApi, Recorded, Reply, Stub};
use uuid::Uuid;

use crate::start_with;

/// Allows webhooks to this machine, with three attempts without delay.
pub(crate) const LOCAL: &[(&str, &str)] = &[
    ("PLATFORM_NOTIFICATION_WEBHOOK_ALLOW_HTTP", "true"),
    ("PLATFORM_NOTIFICATION_WEBHOOK_ALLOW_CIDRS", "127.0.0.0/8,::1/128"),
    ("PLATFORM_NOTIFICATION_RETRY_SECONDS", "0,0,0"),
];

/// Longer than any delivery of a test takes.
const PATIENCE: Duration = Duration::from_mins(1);

/// Starts the module and a receiver of webhooks on this machine.
pub(crate) async fn start_with_receiver() -> (ModuleApi, Stub) {
    (start_with(LOCAL).await, Stub::start().await)
}

/// The `details.reason` of a refusal.
pub(crate) fn reason(reply: &Reply) -> &str {
    reply.body["error"]["details"]["reason"].as_str().unwrap_or_default()
}

/// The id in a response.
pub(crate) fn id(reply: &Reply) -> String {
    assert!((200..300).contains(&reply.status), "{}", reply.text);
    reply.data()["id"].as_str().expect("an id").to_owned()
}

/// Creates a channel and returns its id.
pub(crate) async fn channel(module: &ModuleApi, key: &str, kind: &str, target: Option<&str>) -> String {
    let body = json!({ "key": key, "label": "Label", "kind": kind, "target": target });
    id(&module.ask("POST", "/channels", Some(body)).await)
}

/// Creates a webhook to a path of the receiver.
pub(crate) async fn webhook(module: &ModuleApi, key: &str, receiver: &Stub, path: &str) -> String {
    channel(module, key, "webhook", Some(&format!("{}{path}", receiver.url()))).await
}

/// Creates a webhook in another company.
pub(crate) async fn webhook_of(module: &ModuleApi, company: Uuid, receiver: &Stub, path: &str) -> String {
    let body = json!({ "key": "hook", "label": "Label", "kind": "webhook", "target": format!("{}{path}", receiver.url()) });
    let call = module.call("POST", &module.path(company, "/channels")).json(body);
    id(&module.send("POST", "/channels", call).await)
}

/// Writes one message and one delivery for every channel. They become due at the same moment.
pub(crate) async fn deliver_to_all(module: &ModuleApi) {
    module
        .execute(
            "WITH made AS (
               INSERT INTO notification.messages(id, company_id, channel_id, subject_line, body, created_by)
               SELECT gen_random_uuid(), company_id, id, 's', 'b', 'x' FROM notification.channels
               RETURNING id, company_id, channel_id)
             INSERT INTO notification.delivery_jobs(id, company_id, message_id, channel_id, kind, target, payload)
             SELECT gen_random_uuid(), made.company_id, made.id, channel_id, 'webhook', c.target, '{}'
               FROM made JOIN notification.channels c ON c.id = channel_id"
                .to_owned(),
        )
        .await;
}

/// Publishes a message and returns its id.
pub(crate) async fn message(module: &ModuleApi, channel: &str) -> String {
    id(&module.ask("POST", "/messages", Some(text_of(channel))).await)
}

/// The body of a message.
pub(crate) fn text_of(channel: &str) -> Value {
    json!({ "channelId": channel, "subjectLine": "Release 1.4", "body": "It is out." })
}

/// Makes pending jobs due now, so that no test waits for a step of the ladder.
pub(crate) async fn dispatch(module: &ModuleApi) -> (i64, i64) {
    let reply = module.ask("POST", "/dispatch", None).await;
    assert_eq!(reply.status, 200, "{}", reply.text);
    let number = |name: &str| reply.data()[name].as_i64().expect("a number");
    (number("sent"), number("skipped"))
}

/// Every job, oldest first: `{id, state, attempts, status, class, kind, target, wait}`; `wait` is the number of seconds
/// until it is due.
pub(crate) async fn jobs(module: &ModuleApi) -> Vec<Value> {
    let columns = "'id', id, 'state', state, 'attempts', attempt_count, 'status', last_status, 'class', error_class, \
                   'kind', kind, 'target', target, 'channel', channel_id, 'leased', lease_token IS NOT NULL, \
                   'wait', extract(epoch FROM next_attempt_at - now())::float8";
    module
        .database
        .rows(format!(
            "SELECT jsonb_build_object({columns}) FROM notification.delivery_jobs ORDER BY created_at, id"
        ))
        .await
}

/// Every attempt: `{job, no, outcome, status, class}`.
pub(crate) async fn attempts(module: &ModuleApi) -> Vec<Value> {
    let columns =
        "'job', job_id, 'no', attempt_no, 'outcome', outcome, 'status', status_code, 'class', error_class";
    let sql = format!(
        "SELECT jsonb_build_object({columns}) FROM notification.delivery_attempts ORDER BY job_id, attempt_no"
    );
    module.database.rows(sql).await
}

/// Waits until this condition holds for the jobs.
pub(crate) async fn until(module: &ModuleApi, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    let (start, mut turn) = (Instant::now(), tokio::time::interval(Duration::from_millis(20)));
    loop {
        turn.tick().await;
        let found = jobs(module).await;
        if holds(&found) {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{found:#?}");
    }
}

/// Waits until no job is pending.
pub(crate) async fn settled(module: &ModuleApi) -> Vec<Value> {
    until(module, |jobs| jobs.iter().all(|job| job["state"] != "pending")).await
}

/// Waits until no job is leased and each has had this many attempts.
pub(crate) async fn attempted(module: &ModuleApi, attempts: i64) -> Vec<Value> {
    until(module, |jobs| jobs.iter().all(|job| job["attempts"] == attempts && job["leased"] == false)).await
}

/// Waits until the receiver has got this many requests.
pub(crate) async fn received(receiver: &Stub, count: usize) -> Vec<Recorded> {
    let (start, mut turn) = (Instant::now(), tokio::time::interval(Duration::from_millis(20)));
    loop {
        turn.tick().await;
        let found = receiver.requests();
        if found.len() >= count {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "{} of {count} requests", found.len());
    }
}

/// A response without a body.
pub(crate) fn status(code: u16) -> Response<bytes::Bytes> {
    let mut response = Response::new(bytes::Bytes::new());
    *response.status_mut() = StatusCode::from_u16(code).expect("a status");
    response
}

/// A header of a request.
pub(crate) fn header<'a>(request: &'a Recorded, name: &str) -> &'a str {
    request.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The counter of attempts, from the metrics.
pub(crate) async fn counted(module: &ModuleApi, kind: &str, outcome: &str) -> u64 {
    let text = module.api.get("/metrics").send().await.text;
    let name = format!(
        "platform_delivery_attempts_total{{kind=\"{kind}\",outcome=\"{outcome}\",service=\"notification\"}} "
    );
    let value = text.lines().find_map(|line| line.strip_prefix(name.as_str()));
    value.and_then(|value| value.parse().ok()).expect("the series is there")
}

/// The actions of the audit rows.
pub(crate) async fn actions(module: &ModuleApi) -> Vec<String> {
    let rows = module.audit().await;
    rows.iter().map(|row| row["action"].as_str().expect("a word").to_owned()).collect()
}

/// Makes the caller a member.
pub(crate) fn be_member(module: &ModuleApi) -> Uuid {
    let member = Uuid::now_v7();
    module.member(member, &[], &[]);
    leave_company(module, Vec::new());
    member
}

/// Makes org know everyone as an active member except these: the first as inactive, the others not at all. All have the
/// caller's login, whose account is open.
pub(crate) fn leave_company(module: &ModuleApi, left: Vec<Uuid>) {
    know_members(module, left, Some(SUBJECT));
    let open = json!({ "data": { "held": true, "reason": "ALLOWED", "evidence": null } });
    module.authz.answer("GET", &directory(module), 200, open);
}

/// The path of authz's answer whether the company is open to a subject.
pub(crate) fn directory(module: &ModuleApi) -> String {
    format!("/internal/authz/directory/{}/*", module.company)
}

/// The same, with this login.
pub(crate) fn know_members(module: &ModuleApi, left: Vec<Uuid>, login: Option<&'static str>) {
    let path = format!("/internal/org/companies/{}/lookup", module.company);
    module.org.answer_with("POST", &path, move |request| {
        let asked = request.body["memberIds"].as_array().cloned().unwrap_or_default();
        let known = asked.into_iter().filter(|id| left.iter().skip(1).all(|gone| *id != json!(gone)));
        let shown = known.map(|id| {
            let is_active = left.first().is_none_or(|gone| id != json!(gone));
            json!({ "id": id, "displayName": "x", "email": null, "isActive": is_active, "kcSub": login })
        });
        (200, json!({ "data": { "members": shown.collect::<Vec<_>>(), "positions": [], "groups": [] } }))
    });
}

/// Waits until this many of the module's statements wait for a lock that the test holds.
pub(crate) async fn waiting(module: &ModuleApi, count: i64) {
    let waits = "SELECT to_jsonb(count(*)) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let (start, mut turn) = (Instant::now(), tokio::time::interval(Duration::from_millis(20)));
    loop {
        turn.tick().await;
        let found = module.database.rows(waits.to_owned()).await;
        if found[0].as_i64() >= Some(count) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "only {found:?} of {count} wait");
    }
}

/// The transactions of one caller that the module has at a time (`service::Core::begin`).
const SHARE: usize = 2;

/// Sends all these requests while the row is locked, and releases it when as many wait for it as one caller may have, so
/// that they continue together, and the others at once after them.
pub(crate) async fn together(module: &ModuleApi, row: &str, asked: &[(String, Option<Value>)]) -> Vec<Reply> {
    let pool = module.database.owner_pool();
    let mut held = pool.begin().await.expect("a transaction");
    sqlx::query(sqlx::AssertSqlSafe(format!("SELECT FROM {row} FOR UPDATE")))
        .execute(&mut *held)
        .await
        .expect("the row's lock");
    let asks = asked.iter().map(|(tail, body)| module.ask("POST", tail, body.clone()));
    let release = async {
        waiting(module, i64::try_from(asked.len().min(SHARE)).expect("a few")).await;
        held.rollback().await.expect("the lock is let go");
    };
    futures_util::future::join(futures_util::future::join_all(asks), release).await.0
}
