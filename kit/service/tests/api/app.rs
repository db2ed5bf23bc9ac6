//! The service under test.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use axum::Router;
use axum::extract::{FromRef, State};
use axum::routing::{get, post};
use contract::fields::{Fields, FromBody, Text};
use contract::id::CompanyId;
use contract::{Clock, Settings};
use serde_json::{Value, json};
use service::layers::Limits;
use service::{
    ApiError, AuditEvent, Caller, Core, Correlation, Created, Data, PathParams, Query, RawBody, ServiceConfig,
};
use testkit::{Api, TestDatabase, TokenIssuer};
use tokio::net::TcpListener;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::contention;

/// Body limit of the service, in bytes.
pub(crate) const BODY_LIMIT: usize = 64;
/// Request time limit: longer than the pool's connection timeout, so that an outage is reported as one.
pub(crate) const REQUEST_LIMIT: Duration = Duration::from_millis(2_500);

/// The running service; it stops when dropped.
pub(crate) struct TestApp {
    pub(crate) address: SocketAddr,
    pub(crate) api: Api,
    pub(crate) issuer: TokenIssuer,
    pub(crate) database: TestDatabase,
    pub(crate) core: Core,
    /// How often a handler that counts its runs has run.
    pub(crate) attempts: Arc<AtomicUsize>,
    _stop: DropGuard,
}

/// Waits for the provider's keys: until then every bearer is a 503.
async fn keys_loaded(core: &Core) {
    let mut pace = tokio::time::interval(Duration::from_millis(5));
    while !core.tokens.verifier().keys_loaded() {
        pace.tick().await;
    }
}

#[derive(Clone)]
pub(crate) struct App(pub(crate) Core, pub(crate) Arc<AtomicUsize>);

impl FromRef<App> for Core {
    fn from_ref(app: &App) -> Self {
        app.0.clone()
    }
}

pub(crate) struct Note(pub(crate) String);

impl FromBody for Note {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        fields.text("text", Text::line(10)).map(Self)
    }
}

impl TestApp {
    pub(crate) async fn start() -> Self {
        Self::start_with(|settings| settings).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(Settings) -> Settings) -> Self {
        let database = testkit::database().await;
        let issuer = TokenIssuer::start().await;
        let settings = change(testkit::settings("org", &database, &issuer));
        let mut reader = settings.reader();
        let limits = Limits { body: BODY_LIMIT, request: REQUEST_LIMIT };
        let config = ServiceConfig::read(&mut reader, "org", 0, limits);
        let config = reader.finish(config).expect("the settings are whole");
        let stop = CancellationToken::new();
        let core = Core::start(&config, Clock::system(), &stop).expect("a core");
        let attempts = Arc::default();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let address = listener.local_addr().expect("bound");
        tokio::spawn(service::serve(
            core.clone(),
            routes(App(core.clone(), Arc::clone(&attempts))),
            listener,
            stop.clone(),
            Duration::from_secs(1),
        ));
        keys_loaded(&core).await;
        let api = Api::at(address);
        Self { address, api, issuer, database, core, attempts, _stop: stop.drop_guard() }
    }

    pub(crate) fn token(&self) -> String {
        self.issuer.issue("alice")
    }
}

fn routes(app: App) -> Router {
    Router::new()
        .route("/things/{id}", get(|path: PathParams| async move { path.id::<CompanyId>("id").map(Data) }))
        .route(
            "/optional/{id}",
            get(|path: PathParams| async move { path.id_or_not_found::<CompanyId>("id", "thing").map(Data) }),
        )
        .route("/list", get(|query: Query| async move { query.page().map(|page| Data(page.page_size)) }))
        .route("/whoami", get(|caller: Caller| async move { Data(caller.subject) }))
        .route("/notes", post(take_note))
        .route("/echo", post(|body: RawBody| async move { body.parse::<Note>().map(|note| Data(note.0)) }))
        .route("/panic", get(panics))
        .route(
            "/slow",
            get(|| async {
                std::future::pending::<()>().await;
                Data(Value::Null)
            }),
        )
        .merge(contention::routes())
        .with_state(app)
}

#[expect(clippy::panic, reason = "the layer is tested with a panic")]
async fn panics() -> Data<Value> {
    panic!("a secret that must not be told")
}

/// Writes the audit row of a note, and fails half-way for a note that asks for it.
async fn take_note(
    State(App(core, _)): State<App>,
    caller: Caller,
    Correlation(id): Correlation,
    body: RawBody,
) -> Result<Created<String>, ApiError> {
    let Note(text) = body.parse()?;
    let event =
        |action| AuditEvent { company: None, action, subject: format!("note:{text}"), payload: json!({}) };
    let mut tx = core.begin(&caller.subject, &id).await?;
    if text == "twice" {
        tx.record(&event("note.begun")).await?;
    }
    if text == "fail" {
        tx.record(&event("note.begun")).await?;
        return Err(ApiError::conflict("failed in the middle"));
    }
    tx.commit(&event("note.taken")).await?;
    Ok(Created(text))
}
