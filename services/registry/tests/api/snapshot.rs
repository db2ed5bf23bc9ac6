//! `GET /internal/platform/snapshot`: the stream that gateways follow.

use std::time::{Duration, Instant};

use contract::Subject;
use contract::catalog::{AppEntry, CatalogSnapshot, ModuleState};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use serde_json::json;

use crate::app::{Made, PATIENCE, TestApp, made, start};

/// An open stream and the unprocessed bytes read from it.
pub(crate) struct Stream {
    body: hyper::body::Incoming,
    read: Vec<u8>,
}

impl Stream {
    pub(crate) async fn open(app: &TestApp, query: &str) -> Self {
        let http = Client::builder(TokioExecutor::new()).build_http::<Empty<bytes::Bytes>>();
        let uri = format!("http://{}/internal/platform/snapshot{query}", app.address);
        let response = http.get(uri.parse().expect("an address")).await.expect("an answer");
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "application/x-ndjson");
        Self { body: response.into_body(), read: Vec::new() }
    }

    /// Returns the next line, or `None` if the stream has ended.
    async fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Some(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            let frame = tokio::time::timeout(PATIENCE, self.body.frame()).await.expect("heartbeats");
            self.read.extend_from_slice(frame?.expect("a whole frame").data_ref()?);
        }
    }

    /// Returns the next snapshot, skipping heartbeats.
    pub(crate) async fn snapshot(&mut self) -> CatalogSnapshot {
        self.snapshot_with("anything", |_| true).await
    }

    /// Returns the next snapshot that `is` accepts; `what` describes it in the error after a timeout.
    pub(crate) async fn snapshot_with(
        &mut self,
        what: &str,
        is: impl Fn(&CatalogSnapshot) -> bool,
    ) -> CatalogSnapshot {
        let found = async {
            loop {
                let line = self.line().await.expect("the stream goes on");
                if line.is_empty() {
                    continue;
                }
                let snapshot = serde_json::from_str(&line).expect("a snapshot");
                if is(&snapshot) {
                    return snapshot;
                }
            }
        };
        let in_time = tokio::time::timeout(PATIENCE, found).await;
        in_time.unwrap_or_else(|_| panic!("no snapshot with {what} within {PATIENCE:?}"))
    }

    /// Waits for the end of the stream; only heartbeats may come before it.
    async fn ended(&mut self) {
        let heartbeats = async {
            while let Some(line) = self.line().await {
                assert!(line.is_empty(), "the stream went on instead of ending: {line}");
            }
        };
        tokio::time::timeout(PATIENCE, heartbeats).await.expect("the stream ends");
    }
}

fn states(snapshot: &CatalogSnapshot) -> Vec<(&str, ModuleState)> {
    snapshot.modules.iter().map(|module| (module.key.as_str(), module.state)).collect()
}

#[tokio::test]
async fn the_first_line_comes_at_once_and_each_change_after_it() {
    let modules = [
        Made { needs: vec![("beta", "^1")], ..made("alpha", 8201) },
        made("beta", 8202),
        made("gamma", 8203),
    ];
    let app = start(&modules, "alpha,beta").await;
    let mut stream = Stream::open(&app, "").await;
    let first = stream.snapshot().await;
    assert_eq!(first.revision, app.revision().await);
    let ok = ModuleState::Ok;
    assert_eq!(states(&first), [("alpha", ok), ("beta", ok), ("gamma", ModuleState::ModuleNotInstalled)]);
    assert_eq!(first.modules[0].port, 8201);

    let reply = app.disable("beta").await;
    let second = stream.snapshot().await;
    assert_eq!(second.revision.to_string(), reply.header("x-catalog-revision"));
    assert_eq!(
        states(&second)[..2],
        [("alpha", ModuleState::ModuleDependencyMissing), ("beta", ModuleState::ModuleDisabled)]
    );
    assert_eq!(second.modules[0].missing, ["beta"]);

    assert_eq!(app.enable("beta").await.status, 200);
    assert_eq!(states(&stream.snapshot().await)[0], ("alpha", ok));
    app.end().await;
}

#[tokio::test]
async fn apps_are_told_enabled_or_not() {
    let app = start(&[], "").await;
    let mut stream = Stream::open(&app, "?after=0").await;
    let entry = |enabled| AppEntry {
        key: "crm".to_owned(),
        client_id: "crm-backend".to_owned(),
        subject: Subject::parse("account-of-crm-backend"),
        enabled,
    };
    assert_eq!(app.register(crate::apps::manifest("crm", "1.0.0")).await.status, 200);
    assert_eq!(stream.snapshot().await.apps, [entry(false)]);
    assert_eq!(app.enable("crm").await.status, 200);
    assert_eq!(stream.snapshot().await.apps, [entry(true)]);
    app.end().await;
}

#[tokio::test]
async fn who_is_up_to_date_gets_heartbeats_past_the_time_limit_of_requests() {
    let app = start(&[made("alpha", 8201)], "").await;
    let revision = app.revision().await;
    let mut stream = Stream::open(&app, &format!("?after={revision}")).await;
    let begun = Instant::now();
    for _ in 0..6 {
        assert_eq!(stream.line().await, Some(String::new()), "an empty line");
    }
    assert!(begun.elapsed() > Duration::from_millis(4_500), "heartbeats are a second apart");
    let mut older = Stream::open(&app, &format!("?after={}", revision - 1)).await;
    assert_eq!(older.snapshot().await.revision, revision);
    app.end().await;
}

#[tokio::test]
async fn a_change_of_another_process_is_seen() {
    let app = start(&[made("alpha", 8201)], "alpha").await;
    let mut stream = Stream::open(&app, "").await;
    let first = stream.snapshot().await;
    let mut change = app.owner.begin().await.expect("a transaction");
    for statement in [
        "UPDATE registry.modules SET enabled = false",
        "UPDATE registry.model_revision SET revision = revision + 1",
    ] {
        sqlx::query(statement).execute(&mut *change).await.expect("a change");
    }
    change.commit().await.expect("committed");
    let second = stream.snapshot().await;
    assert_eq!(second.revision, first.revision + 1);
    assert_eq!(states(&second), [("alpha", ModuleState::ModuleDisabled)]);
    app.end().await;
}

#[tokio::test]
async fn a_catalog_that_went_back_ends_the_stream_and_is_told_anew() {
    let app = start(&[made("alpha", 8201)], "").await;
    app.sql("UPDATE registry.model_revision SET revision = 10").await;
    let mut stream = Stream::open(&app, "").await;
    assert_eq!(stream.snapshot().await.revision, 10);
    app.sql("UPDATE registry.model_revision SET revision = 3").await;
    stream.ended().await;
    assert_eq!(Stream::open(&app, "?after=10").await.snapshot().await.revision, 3);
    app.end().await;
}

/// Like a database that was restored and has since reached the same revision, or one restored from another
/// installation.
#[tokio::test]
async fn another_catalog_of_the_same_revision_is_told() {
    let app = start(&[made("alpha", 8201)], "alpha").await;
    let revision = app.revision().await;
    let mut stream = Stream::open(&app, "").await;
    assert_eq!(states(&stream.snapshot().await), [("alpha", ModuleState::Ok)]);
    app.sql("UPDATE registry.modules SET enabled = false").await;
    app.sql("UPDATE registry.model_revision SET revision = revision").await;
    stream.ended().await;
    let anew = Stream::open(&app, "").await.snapshot().await;
    assert_eq!((anew.revision, states(&anew)), (revision, vec![("alpha", ModuleState::ModuleDisabled)]));
    app.end().await;
}

#[tokio::test]
async fn a_stop_ends_the_streams() {
    let app = start(&[made("alpha", 8201)], "").await;
    let mut stream = Stream::open(&app, "").await;
    stream.snapshot().await;
    let begun = Instant::now();
    app.end().await;
    assert!(begun.elapsed() < Duration::from_secs(4), "the drain does not wait for a stream");
    assert_eq!(stream.line().await, None);
}

#[tokio::test]
async fn a_revision_is_a_number() {
    let app = start(&[], "").await;
    for bad in ["x", "-1", "1.5", "99999999999999999999"] {
        let reply = app.get(&format!("/internal/platform/snapshot?after={bad}")).await;
        assert_eq!((reply.status, reply.code()), (400, "VALIDATION_ERROR"), "{bad}");
        assert_eq!(reply.body["error"]["details"]["fields"][0]["path"], json!("after"));
    }
    app.end().await;
}
