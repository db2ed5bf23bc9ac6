//! A small module with shares, similar to helpdesk's bindings: its table, its row, and its one pair of operations. A
//! share makes its holder `viewer` and `owner` of the deal, and counts in `crm.share_count` while it is active.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use contract::decision::ObjectRef;
use contract::grants::Tuple;
use contract::id::CompanyId;
use contract::{Clock, CorrelationId, Settings, Subject};
use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};
use service::clients::authz::AuthzClient;
use service::idempotency::{Attempt, HEADER, Key, Once};
use service::layers::Limits;
use service::two_store::{NewRow, TupleRow, TwoStore, Withdrawal};
use service::{
    ApiError, AuditEvent, AuditedTx, Caller, CompanyCall, Core, Feature, Operation, PathParams, ServiceConfig,
};
use sqlx::PgConnection;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// The SQL of the module's migration.
pub(crate) const MIGRATION: &str = "
    CREATE TABLE crm.shares(
      id uuid PRIMARY KEY, company_id uuid NOT NULL, holder text NOT NULL,
      state text NOT NULL CHECK (state IN ('pending', 'active', 'revoking')),
      attempts int NOT NULL DEFAULT 0, attempted_at timestamptz NOT NULL DEFAULT now(),
      CONSTRAINT shares_holder UNIQUE (company_id, holder));
    CREATE INDEX shares_unsettled ON crm.shares(id) WHERE state <> 'active';
    CREATE TABLE crm.share_count(company_id uuid PRIMARY KEY, shares int NOT NULL);
    CREATE TABLE crm.idempotency_keys(
      company_id uuid NOT NULL, operation text NOT NULL, actor text NOT NULL, idem_key text NOT NULL,
      fingerprint bytea NOT NULL, status smallint, response jsonb, resource_id uuid,
      created_at timestamptz NOT NULL DEFAULT now(), expires_at timestamptz NOT NULL,
      PRIMARY KEY (company_id, operation, actor, idem_key));
    GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA crm TO platform_crm;";

/// The deal that all shares belong to.
pub(crate) const DEAL: &str = "1";

/// The step at which this process kills itself; unset in the process that watches.
static DIES_AT: OnceLock<String> = OnceLock::new();

/// Makes this process die when it reaches the step.
pub(crate) fn die_at(step: &str) {
    DIES_AT.set(step.to_owned()).expect("a process dies once");
}

/// Kills this process as a power failure would, if it is to die at this step.
pub(crate) fn step(name: &str) {
    if DIES_AT.get().is_some_and(|dies_at| dies_at == name) {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
            .expect("a process may kill itself");
    }
}

/// A share.
#[derive(Clone, Debug)]
pub(crate) struct Share {
    pub(crate) id: Uuid,
    company: CompanyId,
    holder: Subject,
}

/// Number of times that this process read a row; the last read before authz is asked is a step.
static READ: AtomicUsize = AtomicUsize::new(0);

impl TupleRow for Share {
    const TABLE: &'static str = "crm.shares";
    const NOUN: &'static str = "share";
    type Shown = Value;

    async fn find(conn: &mut PgConnection, company: CompanyId, id: Uuid) -> Result<Option<Self>, ApiError> {
        step(&format!("read {}", READ.fetch_add(1, Ordering::SeqCst) + 1));
        let found = sqlx::query_scalar("SELECT holder FROM crm.shares WHERE company_id = $1 AND id = $2");
        let holder: Option<String> = found.bind(company.as_uuid()).bind(id).fetch_optional(conn).await?;
        Ok(holder.and_then(|holder| Subject::parse(&holder)).map(|holder| Self { id, company, holder }))
    }

    fn tuples(&self) -> Vec<Tuple> {
        let deal = || ObjectRef { kind: "crm_deal".to_owned(), id: DEAL.to_owned() };
        ["owner", "viewer"].map(|relation| Tuple::user(deal(), relation, &self.holder)).to_vec()
    }

    fn shown(&self) -> Value {
        json!({ "id": self.id, "holder": self.holder })
    }

    async fn granted(&self, tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        count(tx, self.company, 1).await?;
        step("settling");
        Ok(self.event("share.created"))
    }

    async fn revoking(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        count(tx, self.company, -1).await?;
        step("first phase");
        Ok(())
    }

    async fn revoked(&self, _tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        step("settling");
        Ok(self.event("share.deleted"))
    }

    async fn not_revoked(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        count(tx, self.company, 1).await
    }
}

impl Share {
    fn event(&self, action: &'static str) -> AuditEvent {
        AuditEvent {
            company: Some(self.company),
            action,
            subject: format!("share:{}", self.holder),
            payload: json!({}),
        }
    }
}

async fn count(tx: &mut AuditedTx, company: CompanyId, by: i32) -> Result<(), ApiError> {
    let sql = "INSERT INTO crm.share_count AS c(company_id, shares) VALUES ($1, $2)
        ON CONFLICT (company_id) DO UPDATE SET shares = c.shares + excluded.shares";
    sqlx::query(sql).bind(company.as_uuid()).bind(by).execute(tx.conn()).await?;
    Ok(())
}

/// The module in one process.
#[derive(Clone)]
pub(crate) struct Module {
    pub(crate) core: Core,
    pub(crate) company: CompanyId,
    token: String,
    subject: Subject,
    pub(crate) store: TwoStore,
}

impl Module {
    /// Starts the module for alice, with the variables of a module.
    pub(crate) fn start(settings: &Settings, company: CompanyId, token: &str, authz: SocketAddr) -> Self {
        let mut reader = settings.reader();
        let config = ServiceConfig::read(&mut reader, "crm", 0, Limits::MODULE);
        let config = reader.finish(config).expect("the settings are whole");
        let core = Core::start(&config, Clock::system(), &CancellationToken::new()).expect("a core");
        let subject = Subject::parse("alice").expect("a subject");
        Self { company, token: token.to_owned(), subject, store: store(&core, authz), core }
    }

    /// The same module with another authz.
    pub(crate) fn with_authz(&self, authz: SocketAddr) -> Self {
        Self { store: store(&self.core, authz), ..self.clone() }
    }

    /// The same module for another user.
    pub(crate) fn with_user(&self, subject: &str, token: &str) -> Self {
        let subject = Subject::parse(subject).expect("a subject");
        Self { subject, token: token.to_owned(), ..self.clone() }
    }

    fn call(&self) -> CompanyCall {
        let caller =
            Caller { subject: self.subject.clone(), authorized_party: None, token: self.token.clone() };
        let correlation = CorrelationId::generate();
        let feature = Feature::of_module("crm.deals.share", "member");
        let operation = Operation::post("/deals/shares", "createShare", feature);
        CompanyCall {
            caller,
            company: self.company,
            correlation,
            path: PathParams::default(),
            operation,
            feature,
        }
    }

    /// Shares the deal with a holder; idempotent with a key.
    pub(crate) async fn share(&self, holder: &str, key: Option<&str>) -> Result<Once<Value>, ApiError> {
        let attempt = key.map(|key| self.attempt(holder, key));
        let new = NewShare { company: self.company, holder };
        let made = self.store.create(&self.call(), attempt.as_ref(), &new).await?;
        step("settled");
        Ok(made)
    }

    /// Removes a share.
    pub(crate) async fn unshare(&self, id: Uuid) -> Result<Share, ApiError> {
        let removed = self.store.remove::<Share>(&self.call(), id).await?;
        step("settled");
        Ok(removed)
    }

    /// Removes a share without a bearer.
    pub(crate) async fn withdraw(&self, id: Uuid) -> Result<(), ApiError> {
        let (company, correlation) = (self.company, CorrelationId::generate());
        let withdrawal =
            Withdrawal { company, actor: "system:withdrawal", reason: "NO_MORE", correlation: &correlation };
        self.store.withdraw::<Share>(id, &withdrawal).await?;
        step("settled");
        Ok(())
    }

    fn attempt(&self, holder: &str, key: &str) -> Attempt {
        let mut headers = HeaderMap::new();
        headers.insert(HEADER, HeaderValue::from_str(key).expect("a header"));
        let key = Key::of(&headers).expect("a good key").expect("a key");
        key.attempt(self.company, "createShare", &[], &json!({ "holder": holder }))
    }
}

fn store(core: &Core, authz: SocketAddr) -> TwoStore {
    TwoStore::new(core.clone(), AuthzClient::new(&format!("http://{authz}"), &core.inside))
}

/// A share to create.
struct NewShare<'a> {
    company: CompanyId,
    holder: &'a str,
}

impl NewRow for NewShare<'_> {
    type Row = Share;

    async fn insert(&self, tx: &mut AuditedTx) -> Result<Uuid, ApiError> {
        let company = self.company.as_uuid();
        let new = sqlx::query_scalar(
            "INSERT INTO crm.shares(id, company_id, holder, state) VALUES ($1, $2, $3, 'pending')
             ON CONFLICT DO NOTHING RETURNING id",
        );
        let new: Option<Uuid> =
            new.bind(Uuid::now_v7()).bind(company).bind(self.holder).fetch_optional(tx.conn()).await?;
        step("first phase");
        if let Some(id) = new {
            return Ok(id);
        }
        let found = sqlx::query_scalar(
            "SELECT id FROM crm.shares WHERE company_id = $1 AND holder = $2 AND state = 'pending'",
        );
        let found: Option<Uuid> = found.bind(company).bind(self.holder).fetch_optional(tx.conn()).await?;
        found.ok_or_else(|| ApiError::conflict("SHARE_EXISTS"))
    }
}
