//! Idempotent operations: one phase, two phases, and the expiry of keys.

use axum::response::IntoResponse;
use contract::id::CompanyId;
use http::{HeaderMap, HeaderValue, StatusCode};
use serde_json::{Value, json};
use service::idempotency::{self, Attempt, Claim, Done, Key, Once, SWEEP_BATCH};
use service::{ApiError, AuditEvent, CompanyTx, SystemPermit};
use sqlx::{AssertSqlSafe, PgPool};
use uuid::Uuid;

use crate::app::TestApp;

/// The table as in every module's migration.
const TABLE: &str = "
    CREATE TABLE org.idempotency_keys(
      company_id uuid NOT NULL, operation text NOT NULL, actor text NOT NULL, idem_key text NOT NULL,
      fingerprint bytea NOT NULL, status smallint, response jsonb, resource_id uuid,
      created_at timestamptz NOT NULL DEFAULT now(), expires_at timestamptz NOT NULL,
      PRIMARY KEY (company_id, operation, actor, idem_key));
    GRANT SELECT, INSERT, UPDATE, DELETE ON org.idempotency_keys TO platform_org;";

struct Keys {
    app: TestApp,
    owner: PgPool,
    company: CompanyId,
}

impl Keys {
    async fn start() -> Self {
        let app = TestApp::start().await;
        let keys = Self { owner: app.database.owner_pool(), app, company: CompanyId::mint() };
        keys.run(TABLE).await;
        keys
    }

    async fn run(&self, sql: impl Into<String>) {
        let sql: String = sql.into();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&self.owner).await.expect("the statement is right");
    }

    async fn number(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(&self.owner).await.expect("a number")
    }

    async fn tx(&self) -> CompanyTx {
        let permit = SystemPermit::of("note_taker", self.company);
        permit.begin(&self.app.core).await.expect("a transaction")
    }

    fn attempt(&self, key: &'static str, text: &str) -> Attempt {
        let mut headers = HeaderMap::new();
        headers.insert(idempotency::HEADER, HeaderValue::from_static(key));
        let key = Key::of(&headers).expect("a good key").expect("a key");
        key.attempt(self.company, "takeNote", &[], &json!({ "text": text }))
    }

    /// Creates a note once; the audit table counts the runs of the work.
    async fn take(&self, attempt: Option<&Attempt>) -> Result<Once<String>, ApiError> {
        idempotency::once(self.tx().await, attempt, async |_| Ok(taken())).await
    }

    /// The state left by a process that dies between its two phases.
    async fn half_done(&self, attempt: &Attempt, resource: Option<Uuid>) {
        let mut tx = self.tx().await;
        assert!(matches!(idempotency::claim(&mut tx, attempt).await, Ok(Claim::Ours)));
        if let Some(resource) = resource {
            idempotency::hold(&mut tx, attempt, resource).await.expect("held");
        }
        tx.commit_recorded().await.expect("committed");
    }
}

fn taken() -> Done<String> {
    let event =
        AuditEvent { company: None, action: "note.taken", subject: "note:1".to_owned(), payload: json!({}) };
    Done { answer: "a note".to_owned(), resource: Some(Uuid::now_v7()), event }
}

/// Status, `Idempotency-Replayed`, code or data.
async fn told(outcome: Result<Once<String>, ApiError>) -> (u16, bool, String) {
    let response = outcome.into_response();
    let replayed = response.headers().get("idempotency-replayed").is_some_and(|value| value == "true");
    let status = response.status().as_u16();
    let bytes = axum::body::to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    let body: Value = serde_json::from_slice(&bytes).expect("JSON");
    let word = body.pointer("/data").or_else(|| body.pointer("/error/code"));
    (status, replayed, word.and_then(Value::as_str).unwrap_or_default().to_owned())
}

const NOTES: &str = "SELECT count(*) FROM audit.org__events";

#[tokio::test]
async fn an_operation_is_done_once_and_its_answer_given_again() {
    let keys = Keys::start().await;
    let attempt = keys.attempt("k", "hello");
    let note = |replayed| (201, replayed, "a note".to_owned());
    assert_eq!(told(keys.take(Some(&attempt)).await).await, note(false));
    assert_eq!(told(keys.take(Some(&attempt)).await).await, note(true));
    assert_eq!(keys.number(NOTES).await, 1, "the repeat did nothing");
    let other = keys.attempt("k", "goodbye");
    assert_eq!(told(keys.take(Some(&other)).await).await.2, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(told(keys.take(None).await).await, note(false));
    assert_eq!(keys.number(NOTES).await, 2, "without a key each call does its own work");
}

#[tokio::test]
async fn a_refused_operation_leaves_nothing_and_its_key_free() {
    let keys = Keys::start().await;
    let attempt = keys.attempt("k", "hello");
    let refused = idempotency::once::<String>(keys.tx().await, Some(&attempt), async |tx| {
        tx.record("note.taken", "note:1", json!({})).await?;
        Err(ApiError::conflict("no"))
    });
    assert_eq!(told(refused.await).await.0, 409);
    assert_eq!(keys.number(NOTES).await, 0);
    let corrected = keys.attempt("k", "goodbye");
    assert_eq!(told(keys.take(Some(&corrected)).await).await.0, 201);
}

#[tokio::test]
async fn a_claim_that_was_committed_without_its_answer_is_resumed() {
    let keys = Keys::start().await;
    let (attempt, resource) = (keys.attempt("k", "hello"), Uuid::now_v7());
    keys.half_done(&attempt, Some(resource)).await;
    let other = keys.attempt("k", "goodbye");
    let reused = idempotency::claim(&mut *keys.tx().await, &other).await;
    assert!(matches!(reused, Err(ApiError::IdempotencyKeyReused)), "{reused:?}");
    let mut tx = keys.tx().await;
    let claim = idempotency::claim(&mut tx, &attempt).await;
    assert!(matches!(claim, Ok(Claim::Resume(id)) if id == resource), "{claim:?}");
    idempotency::store(&mut tx, &attempt, StatusCode::CREATED, &"a note", Some(resource))
        .await
        .expect("stored");
    tx.commit_recorded().await.expect("committed");
    assert_eq!(told(keys.take(Some(&attempt)).await).await, (201, true, "a note".to_owned()));
}

#[tokio::test]
async fn a_claim_that_stands_for_no_row_is_taken_over() {
    let keys = Keys::start().await;
    let attempt = keys.attempt("k", "hello");
    keys.half_done(&attempt, None).await;
    assert_eq!(told(keys.take(Some(&attempt)).await).await, (201, false, "a note".to_owned()));
    assert_eq!(told(keys.take(Some(&attempt)).await).await, (201, true, "a note".to_owned()));
    assert_eq!(keys.number(NOTES).await, 1);
}

#[tokio::test]
async fn only_one_of_two_repetitions_resumes_at_a_time() {
    let keys = Keys::start().await;
    let attempt = keys.attempt("k", "hello");
    keys.half_done(&attempt, Some(Uuid::now_v7())).await;
    let mut first = keys.tx().await;
    assert!(matches!(idempotency::claim(&mut first, &attempt).await, Ok(Claim::Resume(_))));
    let second = idempotency::claim(&mut *keys.tx().await, &attempt).await;
    assert!(matches!(second, Err(ApiError::IdempotencyInProgress)), "{second:?}");
    first.unchanged().await.expect("rolled back");
    let third = idempotency::claim(&mut *keys.tx().await, &attempt).await;
    assert!(matches!(third, Ok(Claim::Resume(_))), "{third:?}");
}

#[tokio::test]
async fn a_release_frees_a_claim_and_keeps_an_answer() {
    let keys = Keys::start().await;
    let (open, done) = (keys.attempt("open", "hello"), keys.attempt("done", "hello"));
    keys.half_done(&open, Some(Uuid::now_v7())).await;
    keys.take(Some(&done)).await.expect("done");
    let mut tx = keys.tx().await;
    idempotency::release(&mut tx, &open).await.expect("released");
    idempotency::release(&mut tx, &done).await.expect("released");
    tx.commit_recorded().await.expect("committed");
    assert_eq!(told(keys.take(Some(&open)).await).await, (201, false, "a note".to_owned()));
    assert_eq!(told(keys.take(Some(&done)).await).await, (201, true, "a note".to_owned()));
}

impl Keys {
    async fn expired(&self, count: i64) {
        self.run(format!(
            "INSERT INTO org.idempotency_keys(company_id, operation, actor, idem_key, fingerprint, expires_at)
             SELECT '{}', 'takeNote', 'bob', 'old-' || n, '\\x00', now() FROM generate_series(1, {count}) n",
            self.company
        ))
        .await;
    }

    async fn sweep(&self) -> u64 {
        idempotency::sweep(&self.app.core.pool, "org").await.expect("swept")
    }
}

#[tokio::test]
async fn expired_answers_go_in_batches_and_others_stay() {
    let keys = Keys::start().await;
    keys.take(Some(&keys.attempt("k", "hello"))).await.expect("done");
    // A trigger by the owner records how many rows each statement removes.
    keys.run(
        "CREATE TABLE public.batches(rows bigint);
         CREATE FUNCTION public.count_batch() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
         BEGIN INSERT INTO public.batches SELECT count(*) FROM gone; RETURN NULL; END $$;
         CREATE TRIGGER batch AFTER DELETE ON org.idempotency_keys REFERENCING OLD TABLE AS gone
           FOR EACH STATEMENT EXECUTE FUNCTION public.count_batch()",
    )
    .await;
    keys.expired(2 * SWEEP_BATCH + 1).await;
    assert_eq!(keys.sweep().await, 2_001);
    let batches: Vec<i64> = sqlx::query_scalar("SELECT rows FROM public.batches")
        .fetch_all(&keys.owner)
        .await
        .expect("the batches");
    assert_eq!(batches, [SWEEP_BATCH, SWEEP_BATCH, 1]);
    assert_eq!(keys.number("SELECT count(*) FROM org.idempotency_keys").await, 1, "the live one");
    keys.expired(SWEEP_BATCH).await;
    assert_eq!(keys.sweep().await, 1_000, "a whole batch and nothing after it");
    assert_eq!(keys.sweep().await, 0);
}

#[tokio::test]
async fn a_sweep_leaves_a_key_that_a_request_is_replacing() {
    let keys = Keys::start().await;
    keys.expired(3).await;
    let mut request = keys.owner.begin().await.expect("a transaction");
    sqlx::query("SELECT FROM org.idempotency_keys WHERE idem_key = 'old-2' FOR UPDATE")
        .execute(&mut *request)
        .await
        .expect("locked");
    assert_eq!(keys.sweep().await, 2);
    request.rollback().await.expect("rolled back");
    assert_eq!(keys.sweep().await, 1, "the next round removes it");
}
