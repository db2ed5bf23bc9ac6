//! Large lists and explanations: how many one subject may run at once, that no decision waits for them, and how much
//! memory they use together. `AUTHZ_OBJECTS=200000` makes the last test as large as the platform promises.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use contract::Settings;
use contract::id::CompanyId;
use futures_util::future::join_all;
use serde_json::json;
use testkit::{Api, Reply, TokenIssuer};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::app::{App, BETWEEN_LOOKS, Rows, in_company, with};
use crate::can::with_crm;
use crate::cases::told;
use crate::journal::number;
use crate::roles::until_somebody_waits;

const OBJECTS: &str = "/internal/authz/effective-access/objects";
const EXPLAIN: &str = "/internal/authz/effective-access/explain";
const SUMMARY: &str = "/internal/authz/effective-access/summary";
/// The port of the child; set only for the child.
const CHILD_PORT: &str = "AUTHZ_HEAVY_CHILD_PORT";
/// The promised maximum memory of the process, including the graph.
const MAX_MEMORY_KIB: u64 = 512 << 10;
/// Time limit for the child to load the graph on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_mins(2);

fn list(company: CompanyId, page: usize) -> String {
    format!("{OBJECTS}?objectType=crm_deal&relation=viewer&companyId={company}&pageSize=100&page={page}")
}

fn explanation(company: CompanyId) -> String {
    format!("{EXPLAIN}?objectType=crm_deal&objectId=n1&relation=viewer&companyId={company}")
}

/// While the facts cannot be read, every request waits.
#[tokio::test]
async fn the_fifth_read_of_a_subject_is_refused_and_no_decision_is() {
    let (app, _, company) = with_crm(&["alice", "bob"]).await;
    let mut holding = app.owner.begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE identity.provider_look IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *holding)
        .await
        .expect("held");
    let (list, explanation, summary) = (list(company, 1), explanation(company), SUMMARY.to_owned());
    let of_alice = [&list, &summary, &list, &explanation, &explanation, &summary];
    let reads = join_all(of_alice.map(|path| app.ask("GET", path, "alice", None)));
    let decision = app.can("alice", in_company(company));
    let (reads, of_bob, decision) = tokio::join!(reads, app.ask("GET", &list, "bob", None), decision);
    holding.rollback().await.expect("let go");
    let is_refused = |reply: &Reply| {
        (reply.status, reply.code(), reply.header("retry-after")) == (429, "RATE_LIMITED", "1")
    };
    let refused: Vec<bool> = reads.iter().map(is_refused).collect();
    assert_eq!(refused.iter().filter(|refused| **refused).count(), 2, "{reads:?}");
    assert!(reads.iter().all(|reply| [429, 503].contains(&reply.status)), "{reads:?}");
    assert_eq!((of_bob.status, decision.status), (503, 503), "they wait for the facts, not for alice");
    let details = &reads.iter().find(|reply| reply.status == 429).expect("refused").body["error"]["details"];
    assert_eq!(details, &json!({ "scope": "reads", "retryAfterSeconds": 1 }));
    crate::restore::until_loaded(&app).await;
    for path in of_alice {
        assert_eq!(
            app.ask("GET", path, "alice", None).await.status,
            200,
            "one after the other there is no limit"
        );
    }
}

/// A summary of one company costs little more than a decision, unless its subject has very many tuples.
#[tokio::test]
async fn summaries_of_one_company_are_limited_when_the_subject_has_very_many_tuples() {
    let (app, rows, company) = with_crm(&["alice"]).await;
    crate::restore::until_loaded(&app).await;
    let path = format!("{SUMMARY}?companyId={company}");
    // While the facts cannot be read, every request waits.
    let held = async || {
        let mut holding = app.owner.begin().await.expect("a transaction");
        sqlx::query("LOCK TABLE identity.provider_look IN ACCESS EXCLUSIVE MODE")
            .execute(&mut *holding)
            .await
            .expect("held");
        holding
    };
    let six = || join_all((0..6).map(|_| app.ask("GET", &path, "alice", None)));
    let count = |replies: Vec<Reply>, status| replies.iter().filter(|reply| reply.status == status).count();
    let own = |numbers: &str| {
        format!(
            "INSERT INTO authz.tuple SELECT 'crm_deal', 'own' || n, 'owner', 'user', 'alice', '', 'grant'
               FROM generate_series({numbers}) n"
        )
    };
    let already = "SELECT count(*) FROM authz.tuple WHERE subject_type = 'user' AND subject_id = 'alice'";
    let already: i64 = sqlx::query_scalar(already).fetch_one(&app.owner).await.expect("a number");
    rows.run(own(&format!("{already} + 1, 1000"))).await;
    assert_eq!(app.can("alice", in_company(company)).await.status, 200, "memory has what was written");
    let holding = held().await;
    let let_go = async {
        until_somebody_waits(&app).await;
        holding.rollback().await.expect("let go");
    };
    let (replies, ()) = tokio::join!(six(), let_go);
    assert_eq!(count(replies, 200), 6);
    rows.run(own("1001, 1001")).await;
    assert_eq!(app.can("alice", in_company(company)).await.status, 200);
    let holding = held().await;
    assert_eq!(count(six().await, 429), 2);
    holding.rollback().await.expect("let go");
}

/// Summaries and the decisions about grants come from memory, so a lock on the table of tuples delays neither.
#[tokio::test]
async fn summaries_and_grants_do_not_wait_for_the_table_of_tuples() {
    let readers: Vec<String> = (0..10).map(|number| format!("reader{number}")).collect();
    let names: Vec<&str> = readers.iter().map(String::as_str).collect();
    let (app, rows, company) = with_crm(&names).await;
    rows.subject("stranger").await;
    rows.module("erp", &json!({ "erp_order": { "company_module": { "this": true } } })).await;
    let body = json!({ "op": "grant", "companyId": company, "tuples": [{
        "objectType": "erp_order", "objectId": "1", "relation": "company_module",
        "subjectType": "company_module", "subjectId": format!("{company}/erp"),
    }] });
    let grant = async || {
        let reply = app.ask("POST", "/internal/authz/grants", "stranger", Some(body.clone())).await;
        reply.body["error"]["details"]["reason"].as_str().map(ToOwned::to_owned)
    };
    let paths = [SUMMARY.to_owned(), format!("{SUMMARY}?companyId={company}")];
    let summaries = async || {
        let asked = names.iter().flat_map(|name| paths.iter().map(|path| app.ask("GET", path, name, None)));
        let replies = join_all(asked).await;
        assert!(replies.iter().all(|reply| reply.status == 200), "{replies:?}");
        replies.into_iter().map(|reply| reply.data().clone()).collect::<Vec<_>>()
    };
    crate::restore::until_loaded(&app).await;
    let reason = Some("COMPANY_MEMBERSHIP_REQUIRED".to_owned());
    assert_eq!(grant().await, reason, "control");
    let before = summaries().await;
    let mut holding = app.owner.begin().await.expect("a transaction");
    sqlx::query("LOCK TABLE authz.tuple IN ACCESS EXCLUSIVE MODE")
        .execute(&mut *holding)
        .await
        .expect("held");
    assert_eq!(summaries().await, before);
    assert_eq!(grant().await, reason);
    holding.rollback().await.expect("let go");
}

/// Adds objects that the subjects view as members of a group, each also viewed by the viewers of the next.
async fn fill(rows: &Rows, company: CompanyId, objects: u64) {
    rows.run(format!(
        "ALTER TABLE authz.tuple DISABLE TRIGGER USER;
         INSERT INTO authz.tuple SELECT 'crm_deal', 'n' || n, 'company_module', 'company_module', '{company}/crm', '', 'grant'
           FROM generate_series(1, {objects}) n;
         INSERT INTO authz.tuple SELECT 'crm_deal', 'n' || n, 'viewer', 'group', 'g', 'member', 'grant'
           FROM generate_series(2, {objects}) n;
         INSERT INTO authz.tuple SELECT 'crm_deal', 'n' || n, 'viewer', 'crm_deal', 'n' || n + 1, 'viewer', 'grant'
           FROM generate_series(1, {objects} - 1) n;
         SELECT feed.wire()"
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sixty_reads_at_once_hold_little_and_decisions_go_on() {
    let objects = number("AUTHZ_OBJECTS", 10_000);
    let subjects: Vec<String> = (0..15).map(|number| format!("reader{number}")).collect();
    let names: Vec<&str> = subjects.iter().map(String::as_str).collect();
    let (app, rows, company) = with_crm(&names).await;
    fill(&rows, company, objects).await;
    for subject in &names {
        rows.tuple(&format!("group:g#member@user:{subject}"), "org").await;
    }
    rows.look(0).await;
    let (mut child, api) = start_child(&app).await;
    let token = |subject: &str| app.issuer.issue(subject);
    let pages = usize::try_from(objects / 100).expect("few");
    let paths = [list(company, 1), explanation(company), list(company, pages), explanation(company)];
    let reads = names.iter().flat_map(|subject| {
        paths.iter().map(|path| api.get(path).bearer(&token(subject)).send()).collect::<Vec<_>>()
    });
    let body = with(
        in_company(company),
        json!({ "object": { "type": "crm_deal", "id": "n2" }, "relation": "viewer" }),
    );
    let decisions = async {
        let mut longest = Duration::ZERO;
        for _ in 0..50 {
            let asked = std::time::Instant::now();
            let reply = api.post(crate::app::CAN).bearer(&token("reader0")).json(body.clone()).send().await;
            assert_eq!(reply.data()["reason"], "ALLOWED", "{}", reply.text);
            longest = longest.max(asked.elapsed());
        }
        longest
    };
    let (replies, longest) = tokio::join!(join_all(reads), decisions);
    let peak = peak_memory(&child);
    child.kill().expect("it is stopped");
    child.wait().expect("it ends");
    let answered = replies.iter().filter(|reply| reply.status == 200).count();
    told(&format!(
        "{objects} objects, 60 reads at once: {answered} answered, peak {} MiB, slowest decision {longest:?}",
        peak >> 10
    ));
    assert!(
        replies.iter().all(|reply| [200, 503].contains(&reply.status)),
        "late ones are told so, nothing else"
    );
    let page =
        &replies.iter().find(|reply| reply.body["data"]["total"].is_u64()).expect("a list").body["data"];
    assert_eq!(page["total"], objects);
    assert!(answered > 0 && peak < MAX_MEMORY_KIB, "{} MiB", peak >> 10);
}

/// The peak resident size of a process.
fn peak_memory(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it lives");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux tells");
    line.trim().trim_end_matches("kB").trim().parse().expect("a number")
}

/// Starts a separate process, so that its memory holds nothing else, and waits until it has loaded the graph.
async fn start_child(app: &App) -> (Child, Api) {
    let unused = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = unused.local_addr().expect("bound");
    drop(unused);
    let settings =
        testkit::settings("authz", &app.database, &app.issuer).with("PLATFORM_SUPERADMINS", "root");
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.args(["--exact", "heavy::child_process", "--nocapture"]).envs(settings.iter());
    command.env(CHILD_PORT, address.port().to_string()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("this binary starts");
    let api = Api::at(address);
    let loaded = async {
        let line = "platform_authz_memory_loaded{service=\"authz\"} 1";
        while !api.get("/metrics").try_send().await.is_ok_and(|reply| reply.text.contains(line)) {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        let token = TokenIssuer::issue(&app.issuer, "root");
        while api.post(crate::app::CAN).bearer(&token).try_send().await.is_ok_and(|reply| reply.status == 503)
        {
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    };
    tokio::time::timeout(PATIENCE, loaded).await.expect("the child loads the graph");
    (child, api)
}

/// Not a test: the process whose memory is measured. Without the variable it does nothing.
#[test]
fn child_process() {
    let settings = Settings::from_pairs(std::env::vars());
    let port = settings.iter().find_map(|(name, value)| (name == CHILD_PORT).then(|| value.to_owned()));
    let Some(port) = port else { return };
    let config = authz::Config::read(&settings).expect("the parent sets it");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let address = ("127.0.0.1", port.parse().expect("a port"));
        let listener = TcpListener::bind(address).await.expect("the parent left it");
        authz::serve(config, listener, CancellationToken::new())
            .await
            .expect("it serves until it is stopped");
    });
}
