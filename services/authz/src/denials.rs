//! The audit of denials: a denied `can`, or a batch with denied items, is answered only after its row is committed. One
//! statement writes all waiting rows, so that many concurrent denials cost one commit. A row that cannot be written
//! makes the answer unavailable.

use std::collections::BTreeMap;

use contract::Subject;
use contract::decision::{AccessRequest, Reason};
use contract::id::CompanyId;
use serde::Serialize;
use serde_json::{Value, json};
use service::ApiError;
use service::config::DatabaseConfig;
use service::db::OwnConnection;
use sqlx::types::Json;
use tokio::sync::{mpsc, oneshot};

use crate::decision::BatchAnswer;

/// Maximum number of rows per statement.
const MAX_ROWS: usize = 256;
/// Maximum number of queued denials; further ones wait for room, within their request's time limit.
const MAX_WAITING: usize = 1_024;

/// Maximum number of denied items that the row of a batch lists.
const MAX_LISTED: usize = 50;
/// Maximum number of bytes per text of such an item, which bounds the row whatever a request names. The longest object
/// that the platform itself names, a module in a company, fits.
const MAX_TEXT: usize = 128;
/// Marks a text that was cut.
const MORE: &str = "…";

/// The audit row of one denial.
#[derive(Clone, Debug, Serialize)]
pub struct Denial {
    company: Option<CompanyId>,
    actor: String,
    action: &'static str,
    subject: String,
    correlation: String,
    payload: Value,
}

impl Denial {
    /// The denial of one request.
    #[must_use]
    pub fn of_request(bearer: &Subject, request: &AccessRequest, reason: Reason, correlation: &str) -> Self {
        let payload = json!({
            "featureKey": request.feature_key,
            "reason": reason,
            "moduleKey": request.module_key,
            "object": request.object.as_ref().map(ToString::to_string),
            "relation": request.relation,
        });
        Self {
            company: request.company_id,
            actor: bearer.as_str().to_owned(),
            action: "access.denied",
            subject: format!("feature:{}", request.feature_key),
            correlation: correlation.to_owned(),
            payload,
        }
    }

    /// The denied items of one batch; `None` when there are none.
    #[must_use]
    pub fn of_batch(bearer: &Subject, answers: &[BatchAnswer], correlation: &str) -> Option<Self> {
        let denied: Vec<_> = answers.iter().filter(|answer| !answer.decision.allowed).collect();
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for answer in &denied {
            *reasons.entry(answer.decision.reason.as_str()).or_default() += 1;
        }
        let listed = listed(&denied);
        let payload = json!({
            "denied": denied.len(),
            "reasons": reasons,
            "truncated": listed.len() < denied.len(),
            "items": listed,
        });
        (!denied.is_empty()).then(|| Self {
            company: None,
            actor: bearer.as_str().to_owned(),
            action: "access.batch_denied",
            subject: format!("user:{bearer}"),
            correlation: correlation.to_owned(),
            payload,
        })
    }
}

/// The first denied items, as JSON.
fn listed(denied: &[&BatchAnswer]) -> Vec<Value> {
    let told = |answer: &&BatchAnswer| {
        json!({
            "object": cut(answer.object.to_string()),
            "relation": cut(answer.relation.clone()),
            "reason": answer.decision.reason,
        })
    };
    denied.iter().take(MAX_LISTED).map(told).collect()
}

/// Cuts a text to [`MAX_TEXT`] bytes and marks the cut.
fn cut(mut text: String) -> String {
    if text.len() > MAX_TEXT {
        text.truncate(text.floor_char_boundary(MAX_TEXT));
        text.push_str(MORE);
    }
    text
}

struct Waiting {
    denial: Denial,
    written: oneshot::Sender<bool>,
}

/// Writes denials over its own connection. Cheap to clone; the writer ends with the last clone.
#[derive(Clone, Debug)]
pub struct DenialLog(mpsc::Sender<Waiting>);

impl DenialLog {
    /// Starts the writer task.
    #[must_use]
    pub fn start(database: &DatabaseConfig) -> Self {
        let (sender, queue) = mpsc::channel(MAX_WAITING);
        tokio::spawn(write_all(OwnConnection::new(database), queue));
        Self(sender)
    }

    /// Returns once the denial is committed.
    ///
    /// # Errors
    /// 503 when it is not committed, or when that is unknown.
    pub async fn write(&self, denial: Denial) -> Result<(), ApiError> {
        let (written, answer) = oneshot::channel();
        let queued = self.0.send(Waiting { denial, written }).await.is_ok();
        if queued && answer.await == Ok(true) {
            return Ok(());
        }
        Err(ApiError::Unavailable { dependency: "postgres".into(), details: json!({ "step": "audit" }) })
    }
}

async fn write_all(mut own: OwnConnection, mut queue: mpsc::Receiver<Waiting>) {
    let mut waiting = Vec::new();
    while queue.recv_many(&mut waiting, MAX_ROWS).await > 0 {
        let outcome = insert(&mut own, &waiting).await;
        if let Err(error) = &outcome {
            tracing::error!(%error, denials = waiting.len(), "failed to audit denials");
        }
        for one in waiting.drain(..) {
            // The requester may have hung up; the row exists all the same.
            one.written.send(outcome.is_ok()).unwrap_or_default();
        }
    }
}

async fn insert(own: &mut OwnConnection, waiting: &[Waiting]) -> sqlx::Result<()> {
    let rows: Vec<&Denial> = waiting.iter().map(|one| &one.denial).collect();
    let mut connection = own.take().await?;
    sqlx::query!(
        "INSERT INTO audit.authz__events(company_id, actor, action, subject, correlation_id, payload)
         SELECT company, actor, action, subject, correlation, payload
           FROM jsonb_to_recordset($1)
             AS denied(company uuid, actor text, action text, subject text, correlation text, payload jsonb)",
        Json(rows) as _,
    )
    .execute(&mut connection)
    .await?;
    own.put_back(connection);
    Ok(())
}
