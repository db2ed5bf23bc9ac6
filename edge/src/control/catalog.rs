//! The catalog as streamed by registry: complete snapshots, one line per change, an empty line as heartbeat. A stream
//! that is silent for 3 s is reopened; while registry is unavailable the last snapshot stays in use.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwapOption, Guard};
use bytes::{Bytes, BytesMut};
use contract::Subject;
use contract::catalog::{CatalogSnapshot, ModuleEntry, ModuleState};
use foldhash::quality::RandomState;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::BodyExt;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::body::upload::Upload;
use crate::config::Service;
use crate::upstream::answer::AnswerBody;
use crate::upstream::client::{Failure, Outgoing, UpstreamClient};
use crate::upstream::registry::Upstreams;
use crate::upstream::target::{Asker, Upstream};

/// Registry's stream. Without `after` each connection starts with a complete snapshot, so that a registry that was set
/// up anew, with lower revisions, is accepted.
const STREAM_PATH: &str = "/internal/platform/snapshot";
/// Registry sends a line every second; three missing ones are an outage.
const LONGEST_SILENCE: Duration = Duration::from_secs(3);
/// More than a catalog of thousands of modules needs.
const MAX_LINE_BYTES: usize = 1 << 20;
/// The first wait after a lost stream; doubled up to the longest.
const FIRST_BACK_OFF: Duration = Duration::from_millis(50);
/// A returning registry is noticed within a second.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(1);
/// How long an answer waits for the snapshot that shows its own change.
const LONGEST_SETTLING: Duration = Duration::from_secs(2);

/// One snapshot, indexed for the pipeline's questions.
#[derive(Debug)]
pub(crate) struct Catalog {
    revision: i64,
    edition: String,
    modules: HashMap<String, Module, RandomState>,
    apps: HashSet<String, RandomState>,
    /// The service account of each app's client, if known.
    app_backends: HashMap<String, Option<Subject>, RandomState>,
}

/// A module of the snapshot, and its upstream.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) key: Arc<str>,
    pub(crate) entry: ModuleEntry,
    pub(crate) upstream: Arc<Upstream>,
}

impl Catalog {
    fn of(snapshot: CatalogSnapshot, upstreams: &Upstreams) -> Self {
        let (apps, app_backends) =
            snapshot.apps.into_iter().map(|app| (app.key, (app.client_id, app.subject))).unzip();
        let located = |entry: ModuleEntry| {
            let upstream = upstreams.module(&entry.key, entry.port);
            (entry.key.clone(), Module { key: Arc::from(entry.key.as_str()), entry, upstream })
        };
        let modules = snapshot.modules.into_iter().map(located).collect();
        let (revision, edition) = (snapshot.revision, snapshot.edition);
        Self { revision, edition, modules, apps, app_backends }
    }

    /// Whether this catalog, which arrived after `before`, belongs to another database state: a restored database, or
    /// one whose server was restarted, which looks the same.
    fn is_of_another_database_than(&self, before: &Self) -> bool {
        self.revision < before.revision
            || (self.revision == before.revision && self.edition != before.edition)
    }

    pub(crate) const fn revision(&self) -> i64 {
        self.revision
    }

    pub(crate) fn module(&self, key: &str) -> Option<&Module> {
        self.modules.get(key)
    }

    /// Every installed and enabled module, by key, including modules with missing dependencies.
    pub(crate) fn enabled(&self) -> Vec<&ModuleEntry> {
        let is_enabled = |module: &&ModuleEntry| {
            matches!(module.state, ModuleState::Ok | ModuleState::ModuleDependencyMissing)
        };
        let mut enabled: Vec<_> =
            self.modules.values().map(|module| &module.entry).filter(is_enabled).collect();
        enabled.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        enabled
    }

    pub(crate) fn is_app(&self, key: &str) -> bool {
        self.apps.contains(key)
    }

    /// Whether `subject` is the service account of `client`, and `client` belongs to a registered app, enabled or not.
    /// A token that the client got for a user is the user's.
    pub(crate) fn is_app_backend(&self, client: &str, subject: &Subject) -> bool {
        self.app_backends.get(client).is_some_and(|account| account.as_ref() == Some(subject))
    }
}

/// The current catalog; `None` until the first snapshot arrives.
#[derive(Debug)]
pub(crate) struct CatalogWatch {
    present: ArcSwapOption<Catalog>,
    /// The current revision; published after the catalog itself.
    revision: watch::Sender<Option<i64>>,
    /// When registry last sent anything, including heartbeats.
    heard: Mutex<Option<Instant>>,
}

#[derive(Debug, thiserror::Error)]
enum StreamEnd {
    #[error("registry does not answer: {0}")]
    Unreachable(Failure),
    #[error("registry answered {0}")]
    Status(StatusCode),
    #[error("the stream broke off")]
    Broken,
    #[error("nothing arrived for 3 s")]
    Silent,
    #[error("a line is longer than 1 MiB")]
    TooLong,
    #[error("a line is not a snapshot: {0}")]
    Malformed(#[from] serde_json::Error),
}

impl CatalogWatch {
    pub(crate) fn new() -> Self {
        Self { present: ArcSwapOption::empty(), revision: watch::Sender::new(None), heard: Mutex::default() }
    }

    /// The current catalog. Do not hold the guard for long.
    pub(crate) fn present(&self) -> Guard<Option<Arc<Catalog>>> {
        self.present.load()
    }

    /// How long registry has been silent; `None` before its first line. A healthy stream is never silent for 2 s.
    pub(crate) fn silent_for(&self) -> Option<Duration> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).map(|heard| heard.elapsed())
    }

    /// Waits for the first snapshot.
    pub(crate) async fn arrived(&self) {
        let mut revisions = self.revision.subscribe();
        // The sender lives as long as `self`.
        let _arrived = revisions.wait_for(Option::is_some).await;
    }

    /// Waits until the snapshot includes `revision`; `false` if that takes longer than 2 s.
    pub(crate) async fn settled(&self, revision: i64) -> bool {
        let mut revisions = self.revision.subscribe();
        let holds = |present: &Option<i64>| present.is_some_and(|present| present >= revision);
        timeout(LONGEST_SETTLING, revisions.wait_for(holds)).await.is_ok_and(|found| found.is_ok())
    }

    /// Follows registry for ever; ends when its task is dropped. Calls `forget` when a new catalog shows that the
    /// database was replaced.
    pub(crate) async fn follow(&self, client: &UpstreamClient, upstreams: &Upstreams, forget: impl Fn()) {
        let mut back_off = FIRST_BACK_OFF;
        let mut away = false;
        loop {
            let mut heard = false;
            let end = match self.follow_one(client, upstreams, &forget, &mut heard).await {
                Ok(never) => match never {},
                Err(end) => end,
            };
            if heard {
                back_off = FIRST_BACK_OFF;
                away = false;
            }
            if away {
                tracing::debug!(%end, "still no catalog from registry");
            } else {
                tracing::warn!(%end, "lost registry's catalog stream; the last snapshot stays in use");
            }
            away = true;
            tokio::time::sleep(back_off).await;
            back_off = (back_off * 2).min(LONGEST_BACK_OFF);
        }
    }

    async fn follow_one(
        &self,
        client: &UpstreamClient,
        upstreams: &Upstreams,
        forget: impl Fn(),
        heard: &mut bool,
    ) -> Result<std::convert::Infallible, StreamEnd> {
        let mut lines = Lines::open(client, upstreams.service(Service::Registry)).await?;
        loop {
            let line = timeout(LONGEST_SILENCE, lines.next()).await.map_err(|_| StreamEnd::Silent)??;
            *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            if line.trim_ascii().is_empty() {
                continue;
            }
            let catalog = Catalog::of(serde_json::from_slice(&line)?, upstreams);
            *heard = true;
            tracing::debug!(revision = catalog.revision, "a new catalog snapshot");
            let revision = catalog.revision;
            // Before the new catalog is published, so that no request sees it together with subjects of the old
            // database.
            if self.present.load().as_ref().is_some_and(|before| catalog.is_of_another_database_than(before))
            {
                tracing::info!(revision, "the database was restored or restarted");
                forget();
            }
            self.present.store(Some(Arc::new(catalog)));
            self.revision.send_replace(Some(revision));
        }
    }
}

/// The lines of one stream.
struct Lines {
    body: AnswerBody,
    rest: BytesMut,
}

impl Lines {
    async fn open(client: &UpstreamClient, registry: &Arc<Upstream>) -> Result<Self, StreamEnd> {
        let mut request = Request::new(());
        *request.uri_mut() = http::Uri::from_static(STREAM_PATH);
        let host = registry.hosts.first().map(|host| host.authority.host_header()).unwrap_or_default();
        if let Ok(host) = HeaderValue::from_str(&host) {
            request.headers_mut().insert(header::HOST, host);
        }
        let outgoing = &mut Outgoing { request, upload: Upload::empty(), upgrade: false };
        let response = client
            .send(Arc::clone(registry), Asker::Gateway, outgoing, Instant::now())
            .await
            .map_err(StreamEnd::Unreachable)?;
        match response.status() {
            StatusCode::OK => Ok(Self { body: response.into_body(), rest: BytesMut::new() }),
            other => Err(StreamEnd::Status(other)),
        }
    }

    async fn next(&mut self) -> Result<Bytes, StreamEnd> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                return Ok(self.rest.split_to(end + 1).freeze());
            }
            if self.rest.len() > MAX_LINE_BYTES {
                return Err(StreamEnd::TooLong);
            }
            let frame = self.body.frame().await.ok_or(StreamEnd::Broken)?.map_err(|_| StreamEnd::Broken)?;
            if let Ok(data) = frame.into_data() {
                self.rest.extend_from_slice(&data);
            }
        }
    }
}
