//! What an operator sees of a running platform: a request as one trace through every part that handled it, with the
//! same id in each part's log lines; and every metric named by the contract, a dashboard or an alert, in a live scrape.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::client::Version;
use crate::harness::login::subject;
use crate::harness::process::port_offset;
use crate::harness::receiver::{Receiver, Told};
use crate::harness::{Api, Together, eventually};
use crate::tour::{create_company, create_member, decide, link};

const LIMIT: Duration = Duration::from_secs(30);
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
const NINE: [&str; 9] =
    ["gateway", "registry", "identity", "org", "authz", "timesheet", "notification", "helpdesk", "docs"];

/// Name, type, labels besides `service`, whether the gateway exports it, whether the other services do (module
/// contract, "Metrics").
type Row = (&'static str, &'static str, &'static [&'static str], By);

#[derive(Clone, Copy)]
enum By {
    All,
    AllButTheGateway,
    One(&'static str),
}

const CATALOGUE: [Row; 14] = [
    ("http_requests_total", "counter", &["route", "method", "status"], By::All),
    ("http_request_duration_seconds", "histogram", &["route", "method", "status"], By::All),
    ("http_requests_in_flight", "gauge", &[], By::All),
    ("platform_build_info", "gauge", &["version", "commit"], By::All),
    ("platform_db_pool_acquired_conns", "gauge", &[], By::AllButTheGateway),
    ("platform_db_pool_idle_conns", "gauge", &[], By::AllButTheGateway),
    ("platform_db_pool_max_conns", "gauge", &[], By::AllButTheGateway),
    ("platform_authz_decisions_total", "counter", &["reason"], By::One("authz")),
    ("platform_authz_decision_duration_seconds", "histogram", &[], By::One("authz")),
    ("platform_delivery_jobs", "gauge", &["state"], By::One("notification")),
    ("platform_delivery_attempts_total", "counter", &["kind", "outcome"], By::One("notification")),
    ("platform_gateway_upstream_requests_total", "counter", &["module", "status"], By::One("gateway")),
    ("platform_gateway_upstream_duration_seconds", "histogram", &["module"], By::One("gateway")),
    ("platform_metrics_scrape_up", "gauge", &[], By::AllButTheGateway),
];

/// One platform for both tests, because starting it takes most of the time.
#[tokio::test]
async fn an_operator_sees_every_part_of_a_request_and_every_metric_that_is_named() {
    let (receiver, port) = Receiver::start();
    let endpoint = format!("http://127.0.0.1:{port}");
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ("PLATFORM_LOG_FORMAT", "json"),
        ("PLATFORM_LOG", "info,sqlx=warn"),
    ];
    let platform = Together::start_with("observed", port_offset(), &variables);
    let api = platform.api(Version::Http2);
    let admin = api.with_token(&platform.token("admin").await);
    let token = platform.token("alice").await;
    let alice = api.with_token(&token);
    alice.get("/api/org/me/companies").await.data(200);
    let company = create_company(&admin, "ACME").await;
    let member = create_member(&admin, &company, "A1").await;
    link(&admin, &member, &subject(&token)).await;

    traced(&platform, &receiver, &alice, &company, &token).await;
    untraced(&platform, &receiver, &alice, &company).await;
    refused(&platform, &alice, &company).await;
    abandoned(&platform, &token, &company).await;
    measured(&admin, &alice, &company).await;
}

async fn traced(platform: &Together, receiver: &Receiver, alice: &Api, company: &str, token: &str) {
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let path = format!("/api/timesheet/v1/companies/{company}/projects");
    alice.with_header("traceparent", &parent).get(&path).await.data(200);
    let chain = [
        ("gateway", "GET /api/{moduleKey}/{path}"),
        ("gateway", "GET timesheet"),
        ("timesheet", "GET /api/timesheet/v1/companies/{companyId}/projects"),
        ("timesheet", "decision"),
        ("timesheet", "POST authz"),
        ("authz", "POST /internal/authz/effective-access/can"),
        ("authz", "decide"),
    ];
    // The gateway's own span ends last.
    eventually("the trace arrives", LIMIT, || async { stands(&receiver.of(TRACE), PARENT, &chain) }).await;
    let spans = receiver.of(TRACE);
    for (service, above) in [("authz", "decide"), ("timesheet", chain[2].1)] {
        let above =
            spans.iter().find(|span| span.service == service && span.name == above).expect("it is there");
        let sql = |span: &&Told| span.service == service && attribute(span, "db.query.text").is_some();
        assert!(
            spans.iter().filter(sql).any(|span| is_below(&spans, span, &above.id)),
            "{service}: {spans:#?}"
        );
    }
    let edge = spans.iter().find(|span| span.name == chain[0].1).expect("it is there");
    assert_eq!(attribute(edge, "http.response.status_code"), Some("200"));
    let steps = ["authenticate", "provision", "authorize"];
    assert!(steps.iter().all(|step| spans.iter().any(|span| span.name == *step && span.parent == edge.id)));
    let told = format!("{spans:?}");
    assert!(!told.contains(token) && !told.contains("Bearer"), "no token in a span");

    let logged = |service: &str| {
        let lines = lines(platform);
        let mut access =
            lines.into_iter().filter(|line| line["target"] == "access" && line["trace_id"] == TRACE);
        access.find(|line| line["service"] == service)
    };
    for service in ["gateway", "timesheet", "authz"] {
        eventually("the line is written", LIMIT, || async {
            logged(service).map(drop).ok_or_else(|| format!("no line of {service}"))
        })
        .await;
    }
    let (edge, module) = (logged("gateway").expect("a line"), logged("timesheet").expect("a line"));
    assert_eq!(edge["correlation_id"], module["correlation_id"]);
    assert_eq!(edge["subject"], module["subject"]);
    assert_eq!(edge["bytes_out"], module["bytes_out"], "both count the body");
    assert!(edge["bytes_out"].as_u64() > Some(0));
    let times =
        ["upstream_us", "first_byte_us", "elapsed_us"].map(|name| edge[name].as_u64().expect("a time"));
    assert!(times.is_sorted() && times[0] > 0, "{times:?}");
    assert!(!platform.log().contains(token), "no token in the log");
}

/// A sender that does not sample: its id is still in the lines, and nothing is exported. A request without a
/// well-formed trace context gets a new id.
async fn untraced(platform: &Together, receiver: &Receiver, alice: &Api, company: &str) {
    let path = format!("/api/timesheet/v1/companies/{company}/projects");
    let unkept = "abababababababababababababababab";
    alice.with_header("traceparent", &format!("00-{unkept}-{PARENT}-00")).get(&path).await.data(200);
    let malformed = format!("00-{}-{PARENT}-01", TRACE.to_uppercase());
    let named = alice.with_header("traceparent", &malformed);
    named.get(&path).await.data(200);
    let access = |trace: &dyn Fn(&str) -> bool| {
        let is_edges = |line: &&Value| line["target"] == "access" && line["service"] == "gateway";
        let mut found: Vec<String> = lines(platform)
            .iter()
            .filter(is_edges)
            .filter(|line| line["route"] == "/api/{moduleKey}/{path}")
            .map(|line| line["trace_id"].as_str().expect("every line has one").to_owned())
            .filter(|id| trace(id))
            .collect();
        found.pop()
    };
    let fresh = |id: &str| id != unkept && id != TRACE;
    eventually("the new trace arrives", LIMIT, || async {
        let id = access(&fresh).ok_or("no line yet")?;
        stands(&receiver.of(&id), "", &[("gateway", "GET /api/{moduleKey}/{path}"), ("authz", "decide")])
    })
    .await;
    assert!(access(&|id| id == unkept).is_some(), "the sender's id is in the line");
    // Later spans have arrived, so these would have arrived too.
    assert!(receiver.of(unkept).is_empty(), "nothing of a trace that its sender does not keep");
}

/// The module's own log line has the reason of the refusal: the response's reason, or else its code.
async fn refused(platform: &Together, alice: &Api, company: &str) {
    let projects = format!("/api/timesheet/v1/companies/{company}/projects");
    alice.post(&projects, json!({"code": "P1", "name": "Mine"})).await.refused(403, "AUTHORIZATION_DENIED");
    alice.get(&format!("{projects}/{company}")).await.refused(405, "METHOD_NOT_ALLOWED");
    for (status, reason) in [(403, "ENGINE_DENIED"), (405, "METHOD_NOT_ALLOWED")] {
        let told = |line: &Value| {
            line["service"] == "timesheet" && line["status"] == status && line["reason"] == reason
        };
        eventually("the module says why", LIMIT, || async {
            lines(platform).iter().any(told).then_some(()).ok_or_else(|| format!("no line of {reason}"))
        })
        .await;
    }
}

/// A client leaves while its request waits for the database: both the gateway and the module log a line.
async fn abandoned(platform: &Together, token: &str, company: &str) {
    let path = format!("/api/timesheet/v1/companies/{company}/projects");
    let database = platform.database("timesheet").await;
    let mut held = database.begin().await.expect("a transaction");
    let lock = "LOCK TABLE timesheet.projects IN ACCESS EXCLUSIVE MODE";
    sqlx::query(lock).execute(&mut *held).await.expect("the table is held");
    for (version, gone) in [(Version::Http1, 1), (Version::Http2, 2)] {
        let api = platform.api(version).with_token(token);
        let patience = Duration::from_millis(300);
        assert!(tokio::time::timeout(patience, api.get(&path)).await.is_err(), "it waits");
        // Its connection is closed too.
        drop(api);
        let lines_of = |service: &'static str| {
            let told = lines(platform).into_iter();
            told.filter(|line| {
                line["target"] == "access" && line["service"] == service && line["status"] == 499
            })
            .filter(|line| line["reason"] == "abandoned" && line["elapsed_us"].as_u64() >= Some(100_000))
            .count()
        };
        eventually("both have a line", LIMIT, || async {
            let counts = [lines_of("gateway"), lines_of("timesheet")];
            if counts == [gone; 2] { Ok(()) } else { Err(format!("{counts:?}")) }
        })
        .await;
    }
    held.rollback().await.expect("it ends");
    database.close().await;
}

async fn measured(admin: &Api, alice: &Api, company: &str) {
    for path in ["timesheet/v1/companies/{}/projects", "notification/v1/companies/{}/channels"] {
        alice.get(&format!("/api/{}", path.replace("{}", company))).await;
    }
    for path in ["helpdesk/v1/companies/{}/tickets", "docs/v1/companies/{}/documents"] {
        alice.get(&format!("/api/{}", path.replace("{}", company))).await;
    }
    decide(alice, company).await.data(200);
    admin.with_token("no token").get("/api/platform/catalog").await;
    let reply = admin.get("/api/platform/metrics").await;
    let text = reply.body.as_str().expect("an exposition");
    let series = series(text);
    for (name, kind, labels, by) in CATALOGUE {
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name} is not a {kind}");
        let sample = if kind == "histogram" { format!("{name}_bucket") } else { name.to_owned() };
        let found = series.get(sample.as_str()).unwrap_or_else(|| panic!("{name} is not there"));
        let mut expected: BTreeSet<&str> = labels.iter().copied().chain(["service"]).collect();
        if kind == "histogram" {
            expected.insert("le");
        }
        let tellers: BTreeSet<&str> = found.iter().map(|labels| labels["service"].as_str()).collect();
        for labels in found {
            assert_eq!(labels.keys().map(String::as_str).collect::<BTreeSet<_>>(), expected, "{name}");
        }
        let right: BTreeSet<&str> = match by {
            By::All => NINE.into(),
            By::AllButTheGateway => NINE.into_iter().filter(|service| *service != "gateway").collect(),
            By::One(service) => [service].into(),
        };
        assert_eq!(tellers, right, "{name}");
    }
    let (mut named, mut files) = (0, 0);
    for file in named_in() {
        let text = std::fs::read_to_string(&file).expect("a file of the pack");
        for name in names(&text) {
            assert!(series.contains_key(name), "{} names {name}, which no service exports", file.display());
            named += 1;
        }
        files += 1;
    }
    println!(
        "catalogue: {} families; {named} names in {files} dashboards and rules, all in the scrape",
        CATALOGUE.len()
    );
    assert!(files >= 7 && named > 40, "the pack is read");
}

/// The dashboards and the alert rules.
fn named_in() -> Vec<std::path::PathBuf> {
    let pack = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy");
    let dashboards = std::fs::read_dir(pack.join("dashboards")).expect("the dashboards");
    let dashboards = dashboards.map(|entry| entry.expect("an entry").path());
    dashboards.chain([pack.join("alerts.yml")]).collect()
}

/// Every text that may be one of our metrics; the parts of a histogram are separate series.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|character: char| !character.is_ascii_alphanumeric() && character != '_');
    words
        .filter(|word| ["http_", "platform_", "process_"].iter().any(|head| word.starts_with(head)))
        .collect()
}

/// The labels of every series, by name.
fn series(text: &str) -> BTreeMap<&str, Vec<BTreeMap<String, String>>> {
    let mut series: BTreeMap<&str, Vec<_>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once('{').unwrap_or_else(|| panic!("{line} has no label"));
        // Values hold route patterns and therefore braces, but no quotation marks.
        let (labels, _) = rest.rsplit_once('}').expect("an end");
        let pair = |pair: &str| {
            let (name, value) = pair.split_once("=\"").expect("a pair");
            (name.trim_start_matches(',').to_owned(), value.to_owned())
        };
        let labels = labels.trim_end_matches('"').split("\",").map(pair).collect();
        series.entry(name).or_default().push(labels);
    }
    series
}

fn lines(platform: &Together) -> Vec<Value> {
    platform.log().lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn attribute<'a>(span: &'a Told, key: &str) -> Option<&'a str> {
    span.attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
}

fn is_below(spans: &[Told], span: &Told, above: &str) -> bool {
    let mut parent = span.parent.as_str();
    while parent != above {
        let Some(next) = spans.iter().find(|other| other.id == parent) else { return false };
        parent = &next.parent;
    }
    true
}

/// Whether each link of the chain is a descendant of the one before, and the first one a child of `root`.
fn stands(spans: &[Told], root: &str, chain: &[(&str, &str)]) -> Result<(), String> {
    let mut above = root.to_owned();
    for (position, (service, name)) in chain.iter().enumerate() {
        let fits = |span: &&Told| {
            let right = span.service == *service && span.name == *name;
            right && if position == 0 { span.parent == above } else { is_below(spans, span, &above) }
        };
        let found = spans.iter().find(fits).ok_or_else(|| format!("{service}: {name} in {spans:#?}"))?;
        above.clone_from(&found.id);
    }
    // The sender's list was empty, and no part adds to it.
    if spans.iter().all(|span| span.state.is_empty()) { Ok(()) } else { Err("a list of vendors".to_owned()) }
}
