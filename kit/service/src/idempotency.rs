//! Idempotent operations: a client that repeats a request under the same `Idempotency-Key` gets the first response
//! again.
//!
//! - One phase ([`once`]): one transaction claims the key, does the work and stores the response, so only committed
//!   work is ever replayed, and a refused call leaves its key free.
//! - Two phases ([`claim`], [`hold`], [`store`]): an operation that also writes tuples commits the claim together with
//!   its unfinished row ([`hold`]) and stores the response when it settles the row. A repeat that finds the claim
//!   without a response resumes that row ([`Claim::Resume`]); a refusal releases the key ([`release`]).
//!
//! A repeat that arrives while the first request is still running waits up to [`WAIT`] for it to end. The caller
//! obtains the authorization decision before it claims: a stored response is not a permit.
//!
//! The rows are `<service>.idempotency_keys`; a service without that table must not call this. A service with rows that
//! stand for tuples also needs `CREATE INDEX … ON …(company_id, resource_id) WHERE status IS NULL`: settling such a row
//! also answers the keys that name it, and would otherwise read all of the company's keys.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use contract::id::CompanyId;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use ring::digest::{Context, SHA256};
use serde::Serialize;
use serde_json::Value;
use sqlx::{AssertSqlSafe, PgPool};
use uuid::Uuid;

use crate::db::{LOCK_NOT_HAD, has_state};
use crate::reply::render;
use crate::{ApiError, AuditEvent, AuditedTx, CompanyTx, Created};

/// The request header.
pub const HEADER: &str = "idempotency-key";
/// Longest key, in bytes.
pub const MAX_KEY: usize = 200;
/// How long a repeat waits for the first request to end; below the time limit of a request.
pub const WAIT: &str = "2s";
/// How long a response is kept.
const KEPT_HOURS: i32 = 72;
/// Expired responses removed by one statement: far below the statement timeout, and few row locks at a time.
pub const SWEEP_BATCH: i64 = 1_000;
/// How often expired responses are removed.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_hours(1);
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// A client's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// The key of a request, if it sent one.
    ///
    /// # Errors
    /// 400 for a key that is empty, longer than [`MAX_KEY`] or not printable ASCII, and for more than one key.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, ApiError> {
        let wrong = |rule, message: &str| ApiError::validation_field("Idempotency-Key", rule, message);
        let mut sent = headers.get_all(HEADER).iter();
        let Some(value) = sent.next() else { return Ok(None) };
        if sent.next().is_some() {
            return Err(wrong("repeated", "at most one"));
        }
        let bytes = value.as_bytes();
        if !(1..=MAX_KEY).contains(&bytes.len()) {
            return Err(wrong("length", "1 to 200 characters"));
        }
        let printable = bytes.iter().all(|byte| (b' '..=b'~').contains(byte));
        match std::str::from_utf8(bytes) {
            Ok(text) if printable => Ok(Some(Self(text.to_owned()))),
            _ => Err(wrong("pattern", "printable ASCII")),
        }
    }

    /// The attempt of a request under this key. `path` holds the path parameters besides the company's id, `body` the
    /// parsed body.
    #[must_use]
    pub fn attempt(
        self,
        company: CompanyId,
        operation: &'static str,
        path: &[&str],
        body: &Value,
    ) -> Attempt {
        let fingerprint = fingerprint(operation, path, body);
        Attempt { company, operation, key: self, fingerprint }
    }
}

/// One call of an idempotent operation.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The company; keys of different companies are distinct.
    pub company: CompanyId,
    /// The operation's id, such as `submitWeek`; a constant of the module.
    pub operation: &'static str,
    /// The client's key.
    pub key: Key,
    /// The request's [`fingerprint`].
    pub fingerprint: [u8; 32],
}

/// A hash that identifies a request: the operation, its path parameters and its parsed body, with members in order.
#[must_use]
pub fn fingerprint(operation: &str, path: &[&str], body: &Value) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    let body = canonical(body).to_string();
    for part in std::iter::once(operation).chain(path.iter().copied()).chain([body.as_str()]) {
        // Each part begins with its length, so that no two splits hash alike.
        context.update(format!("{}:", part.len()).as_bytes());
        context.update(part.as_bytes());
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

/// The value with the members of every object sorted by name.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_by_key(|(name, _)| *name);
            sorted.into_iter().map(|(name, member)| (name.clone(), canonical(member))).collect()
        }
        Value::Array(items) => items.iter().map(canonical).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// The work of an idempotent operation, done but not committed.
#[derive(Debug)]
pub struct Done<T> {
    /// `data` of the 201 response.
    pub answer: T,
    /// The row that the operation created.
    pub resource: Option<Uuid>,
    /// The transaction's audit row.
    pub event: AuditEvent,
}

/// Runs an operation that creates in one transaction: claims the key, does the work, stores the response and commits,
/// or returns the stored response without doing anything. Without an attempt, only does the work and commits.
///
/// # Errors
/// Those of [`claim`] and of the work; nothing was changed and the key is free.
pub async fn once<T: Serialize>(
    mut tx: CompanyTx,
    attempt: Option<&Attempt>,
    work: impl AsyncFnOnce(&mut CompanyTx) -> Result<Done<T>, ApiError>,
) -> Result<Once<T>, ApiError> {
    if let Some(attempt) = attempt
        && let Claim::Done(replay) = claim(&mut tx, attempt).await?
    {
        tx.unchanged().await?;
        return Ok(Once::Again(replay));
    }
    let Done { answer, resource, event } = work(&mut tx).await?;
    if let Some(attempt) = attempt {
        store(&mut tx, attempt, StatusCode::CREATED, &answer, resource).await?;
    }
    tx.commit_event(&event).await?;
    Ok(Once::First(Created(answer)))
}

/// What a claim found.
#[derive(Debug)]
pub enum Claim {
    /// The transaction owns the key: do the work, [`store`] its response, commit.
    Ours,
    /// An earlier request committed its first phase under this key, for this row, but stored no response. The
    /// transaction owns the key: finish the row, or do the work again if the row is gone.
    Resume(Uuid),
    /// The work was done before: return this response and change nothing.
    Done(Replay),
}

/// Claims the key for the transaction, in its first statement.
///
/// # Errors
/// 422 `IDEMPOTENCY_KEY_REUSED` for another request under the same key; 409 `IDEMPOTENCY_IN_PROGRESS` when the first
/// request does not end in time.
pub async fn claim(tx: &mut AuditedTx, attempt: &Attempt) -> Result<Claim, ApiError> {
    // The timeout is a constant of this file; `SET` takes no parameters.
    sqlx::query(AssertSqlSafe(format!("SET LOCAL lock_timeout = '{WAIT}'"))).execute(tx.conn()).await?;
    if insert(tx, attempt).await? {
        return Ok(Claim::Ours);
    }
    // `insert` has locked the row, so that only one of several repeats at a time resumes it.
    let found = stored(tx, attempt).await?;
    if found.fingerprint != attempt.fingerprint {
        return Err(ApiError::IdempotencyKeyReused);
    }
    let Some(status) = found.status else {
        // Without a row, no work was begun under the key.
        return Ok(found.resource.map_or(Claim::Ours, Claim::Resume));
    };
    let status = u16::try_from(status).map_err(ApiError::internal)?;
    let status = StatusCode::from_u16(status).map_err(ApiError::internal)?;
    Ok(Claim::Done(Replay { status, data: found.response.unwrap_or_default() }))
}

/// Returns true when the key is new or the old one has expired. Waits for another transaction that holds the key.
async fn insert(tx: &mut AuditedTx, attempt: &Attempt) -> Result<bool, ApiError> {
    // The schema's name is a constant of the crate that opened the transaction. It differs by service, so this cannot
    // be a checked query.
    let sql = format!(
        "INSERT INTO {0}.idempotency_keys AS k(company_id, operation, actor, idem_key, fingerprint, expires_at) \
         VALUES ($1, $2, $3, $4, $5, now() + make_interval(hours => $6)) \
         ON CONFLICT (company_id, operation, actor, idem_key) DO UPDATE \
           SET fingerprint = excluded.fingerprint, status = NULL, response = NULL, resource_id = NULL, \
               created_at = now(), expires_at = excluded.expires_at \
           WHERE k.expires_at <= now()",
        tx.service()
    );
    let actor = tx.actor().to_owned();
    let done = sqlx::query(AssertSqlSafe(sql))
        .bind(attempt.company.as_uuid())
        .bind(attempt.operation)
        .bind(actor)
        .bind(&attempt.key.0)
        .bind(attempt.fingerprint.as_slice())
        .bind(KEPT_HOURS)
        .execute(tx.conn())
        .await
        .map_err(still_running)?;
    Ok(done.rows_affected() == 1)
}

/// Maps a lock timeout, which means that the first request is still running.
fn still_running(error: sqlx::Error) -> ApiError {
    if has_state(&error, LOCK_NOT_HAD) { ApiError::IdempotencyInProgress } else { error.into() }
}

#[derive(sqlx::FromRow)]
struct Stored {
    fingerprint: Vec<u8>,
    status: Option<i16>,
    response: Option<Value>,
    #[sqlx(rename = "resource_id")]
    resource: Option<Uuid>,
}

async fn stored(tx: &mut AuditedTx, attempt: &Attempt) -> Result<Stored, ApiError> {
    // As in `insert`.
    let sql = format!(
        "SELECT fingerprint, status, response, resource_id FROM {}.idempotency_keys \
         WHERE company_id = $1 AND operation = $2 AND actor = $3 AND idem_key = $4",
        tx.service()
    );
    let actor = tx.actor().to_owned();
    let found = sqlx::query_as(AssertSqlSafe(sql))
        .bind(attempt.company.as_uuid())
        .bind(attempt.operation)
        .bind(actor)
        .bind(&attempt.key.0);
    Ok(found.fetch_one(tx.conn()).await?)
}

/// Records the row that a key stands for before there is a response: the end of the first phase. A repeat of the
/// request resumes this row.
///
/// # Errors
/// The row could not be recorded; the caller must abandon the transaction.
pub async fn hold(tx: &mut AuditedTx, attempt: &Attempt, resource: Uuid) -> Result<(), ApiError> {
    write(tx, attempt, None, None, Some(resource)).await
}

/// Releases a key whose second phase was refused; keeps a stored response.
///
/// # Errors
/// The key could not be released; the caller must abandon the transaction.
pub async fn release(tx: &mut AuditedTx, attempt: &Attempt) -> Result<(), ApiError> {
    // As in `insert`.
    let sql = format!(
        "DELETE FROM {}.idempotency_keys \
         WHERE company_id = $1 AND operation = $2 AND actor = $3 AND idem_key = $4 AND status IS NULL",
        tx.service()
    );
    let actor = tx.actor().to_owned();
    sqlx::query(AssertSqlSafe(sql))
        .bind(attempt.company.as_uuid())
        .bind(attempt.operation)
        .bind(actor)
        .bind(&attempt.key.0)
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// Stores the response of a key that [`claim`] gave to this transaction.
///
/// # Errors
/// The response could not be written; the caller must abandon the transaction.
pub async fn store(
    tx: &mut AuditedTx,
    attempt: &Attempt,
    status: StatusCode,
    data: &impl Serialize,
    resource: Option<Uuid>,
) -> Result<(), ApiError> {
    let data = serde_json::to_value(data).map_err(ApiError::internal)?;
    let status = i16::try_from(status.as_u16()).map_err(ApiError::internal)?;
    write(tx, attempt, Some(status), Some(data), resource).await
}

/// Stores the response of every key whose first phase named this row and that has none yet, because the sweep or
/// another request ran the second phase. Otherwise a repeat that comes after the row was removed would do the work
/// again.
///
/// # Errors
/// The responses could not be written; the caller must abandon the transaction.
pub(crate) async fn store_for_row(
    tx: &mut AuditedTx,
    company: CompanyId,
    resource: Uuid,
    data: Value,
) -> Result<(), ApiError> {
    // As in `insert`. The primary key begins with the company.
    let sql = format!(
        "UPDATE {}.idempotency_keys SET status = $3, response = $4 \
         WHERE company_id = $1 AND resource_id = $2 AND status IS NULL",
        tx.service()
    );
    let status = i16::try_from(StatusCode::CREATED.as_u16()).map_err(ApiError::internal)?;
    sqlx::query(AssertSqlSafe(sql))
        .bind(company.as_uuid())
        .bind(resource)
        .bind(status)
        .bind(data)
        .execute(tx.conn())
        .await?;
    Ok(())
}

async fn write(
    tx: &mut AuditedTx,
    attempt: &Attempt,
    status: Option<i16>,
    data: Option<Value>,
    resource: Option<Uuid>,
) -> Result<(), ApiError> {
    // As in `insert`.
    let sql = format!(
        "UPDATE {}.idempotency_keys SET status = $5, response = $6, resource_id = $7 \
         WHERE company_id = $1 AND operation = $2 AND actor = $3 AND idem_key = $4",
        tx.service()
    );
    let actor = tx.actor().to_owned();
    sqlx::query(AssertSqlSafe(sql))
        .bind(attempt.company.as_uuid())
        .bind(attempt.operation)
        .bind(actor)
        .bind(&attempt.key.0)
        .bind(status)
        .bind(data)
        .bind(resource)
        .execute(tx.conn())
        .await?;
    Ok(())
}

/// A stored response to replay.
#[derive(Debug)]
pub struct Replay {
    status: StatusCode,
    data: Value,
}

impl IntoResponse for Replay {
    fn into_response(self) -> Response {
        let mut response = render(self.status, self.data);
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        response
    }
}

/// The response of an idempotent operation that creates.
#[derive(Debug)]
pub enum Once<T> {
    /// Done by this call.
    First(Created<T>),
    /// Done by an earlier call.
    Again(Replay),
}

impl<T: Serialize> IntoResponse for Once<T> {
    fn into_response(self) -> Response {
        match self {
            Self::First(created) => created.into_response(),
            Self::Again(replay) => replay.into_response(),
        }
    }
}

/// Removes the expired responses of a service, [`SWEEP_BATCH`] at a time, and returns their number. Skips rows that a
/// request is replacing.
///
/// # Errors
/// The database is unavailable; earlier batches stay removed.
pub async fn sweep(pool: &PgPool, service: &'static str) -> sqlx::Result<u64> {
    // As in `insert`.
    let sql = format!(
        "DELETE FROM {service}.idempotency_keys WHERE ctid = ANY(ARRAY( \
           SELECT ctid FROM {service}.idempotency_keys WHERE expires_at <= now() \
            ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED))"
    );
    let mut removed = 0;
    loop {
        let batch =
            sqlx::query(AssertSqlSafe(sql.as_str())).bind(SWEEP_BATCH).execute(pool).await?.rows_affected();
        removed += batch;
        if i64::try_from(batch).unwrap_or(SWEEP_BATCH) < SWEEP_BATCH {
            return Ok(removed);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(values: &[&[u8]]) -> Result<Option<Key>, Vec<String>> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(HEADER, HeaderValue::from_bytes(value).expect("a header value"));
        }
        Key::of(&headers).map_err(|error| {
            let fields = error.parts().details["fields"].as_array().cloned().unwrap_or_default();
            fields.iter().map(|field| format!("{} {}", field["path"], field["rule"])).collect()
        })
    }

    #[test]
    fn a_key_is_one_to_two_hundred_printable_characters() {
        assert_eq!(key(&[]), Ok(None));
        for good in [b"a".as_slice(), b"~ !", &[b'x'; 200]] {
            assert!(matches!(key(&[good]), Ok(Some(_))));
        }
        for (bad, rule) in [
            (vec![b"".as_slice()], "length"),
            (vec![&[b'x'; 201]], "length"),
            (vec!["ä".as_bytes()], "pattern"),
            (vec![b"a\tb"], "pattern"),
            (vec![b"a", b"a"], "repeated"),
        ] {
            assert_eq!(key(&bad), Err(vec![format!("\"Idempotency-Key\" \"{rule}\"")]));
        }
    }

    #[test]
    fn a_fingerprint_tells_requests_apart_and_not_the_order_of_members() {
        let one = fingerprint("op", &["a"], &json!({ "x": 1, "y": { "b": [1], "a": 2 } }));
        let text = r#"{ "y": { "a": 2, "b": [1] }, "x": 1 }"#;
        let reordered: Value = serde_json::from_str(text).expect("JSON");
        assert_eq!(one, fingerprint("op", &["a"], &reordered));
        for (operation, path, body) in [
            ("po", vec!["a"], reordered.clone()),
            ("op", vec!["b"], reordered.clone()),
            ("op", vec![], reordered.clone()),
            ("op", vec!["a"], json!({ "x": 1 })),
            ("opa", vec![""], reordered),
        ] {
            assert_ne!(one, fingerprint(operation, &path, &body));
        }
    }
}
