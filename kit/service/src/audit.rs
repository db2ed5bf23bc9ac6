//! Every mutation commits together with its audit row: a transaction that wrote something can only be committed with
//! the event that describes the change.

use std::pin::Pin;

use contract::id::CompanyId;
use contract::{Subject, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value, json};
use sqlx::postgres::PgArguments;
use sqlx::query::QueryAs;
use sqlx::{AssertSqlSafe, PgConnection, PgTransaction, Postgres};
use time::OffsetDateTime;

use crate::fair_share::Use;
use crate::{ApiError, Core};

/// Most entries in one object's history: some 0.5 MiB of JSON. A longer history is cut to its latest entries.
pub const MAX_HISTORY: usize = 1_000;

/// One row of `audit.<service>__events`; the actor and the correlation id come from the transaction.
#[derive(Clone, Debug)]
pub struct AuditEvent {
    /// The company in which it happened, if any.
    pub company: Option<CompanyId>,
    /// `<noun>.<past-tense verb>`, such as `member.created`.
    pub action: &'static str,
    /// `<type>:<id>`.
    pub subject: String,
    /// Changed fields as `{from, to}`; never secrets or bodies.
    pub payload: Value,
}

/// A check that runs just before a commit.
type Confirmation = Box<dyn FnOnce() -> Confirming + Send + Sync>;
type Confirming = Pin<Box<dyn Future<Output = Result<(), ApiError>> + Send>>;

/// A transaction that commits together with its audit row, or not at all (dropping it rolls back).
#[must_use = "a transaction that is not committed is rolled back"]
pub struct AuditedTx {
    tx: PgTransaction<'static>,
    service: &'static str,
    actor: String,
    correlation: Option<String>,
    confirmation: Option<Confirmation>,
    /// The caller's share of the connections; given back after the connection.
    _share: Option<Use>,
}

impl AuditedTx {
    pub(crate) fn new(
        tx: PgTransaction<'static>,
        service: &'static str,
        actor: &str,
        correlation: Option<&str>,
    ) -> Self {
        let (actor, correlation) = (actor.to_owned(), correlation.map(ToOwned::to_owned));
        Self { tx, service, actor, correlation, confirmation: None, _share: None }
    }

    /// Holds a share of the connections until the transaction ends.
    pub(crate) fn within(self, share: Use) -> Self {
        Self { _share: Some(share), ..self }
    }

    /// Adds a check that runs after everything is written; the transaction commits only if it succeeds.
    pub(crate) fn confirmed_by<F>(self, confirmation: impl FnOnce() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), ApiError>> + Send + 'static,
    {
        let confirm = move || -> Confirming { Box::pin(confirmation()) };
        Self { confirmation: Some(Box::new(confirm)), ..self }
    }

    /// The connection, for `store.rs`.
    pub fn conn(&mut self) -> &mut PgConnection {
        &mut self.tx
    }

    /// The service whose schema is written.
    pub(crate) const fn service(&self) -> &'static str {
        self.service
    }

    /// The actor.
    #[must_use]
    pub fn actor(&self) -> &str {
        &self.actor
    }

    /// Writes an audit row, for a transaction that makes more than one change.
    ///
    /// # Errors
    /// The row could not be written; the caller must abandon the transaction.
    pub async fn record(&mut self, event: &AuditEvent) -> Result<(), ApiError> {
        // The table's name is a constant of the crate that opened the transaction, so this text holds no input. The
        // name differs by service, so this cannot be a checked query.
        let sql = format!(
            "INSERT INTO audit.{}__events(company_id, actor, action, subject, correlation_id, payload) \
             VALUES ($1, $2, $3, $4, $5, $6)",
            self.service
        );
        sqlx::query(AssertSqlSafe(sql))
            .bind(event.company.map(CompanyId::as_uuid))
            .bind(&self.actor)
            .bind(event.action)
            .bind(&event.subject)
            .bind(self.correlation.as_deref())
            .bind(&event.payload)
            .execute(&mut *self.tx)
            .await?;
        Ok(())
    }

    /// Writes audit rows in this order with one statement, for a transaction that makes many changes.
    ///
    /// # Errors
    /// As [`Self::record`].
    pub async fn record_all(&mut self, events: &[AuditEvent]) -> Result<(), ApiError> {
        // As in `record`.
        let sql = format!(
            "INSERT INTO audit.{}__events(company_id, actor, action, subject, correlation_id, payload) \
             SELECT e.company_id, $1, e.action, e.subject, $2, e.payload \
               FROM unnest($3::uuid[], $4::text[], $5::text[], $6::jsonb[]) WITH ORDINALITY \
                 AS e(company_id, action, subject, payload, place) ORDER BY e.place",
            self.service
        );
        let companies: Vec<_> = events.iter().map(|event| event.company.map(CompanyId::as_uuid)).collect();
        let actions: Vec<&str> = events.iter().map(|event| event.action).collect();
        let subjects: Vec<&str> = events.iter().map(|event| event.subject.as_str()).collect();
        let payloads: Vec<&Value> = events.iter().map(|event| &event.payload).collect();
        let insert = sqlx::query(AssertSqlSafe(sql)).bind(&self.actor).bind(self.correlation.as_deref());
        insert.bind(companies).bind(actions).bind(subjects).bind(payloads).execute(&mut *self.tx).await?;
        Ok(())
    }

    /// Writes the audit row and commits. The check of a superadmin's transaction runs first.
    ///
    /// # Errors
    /// Nothing was committed (403: the caller lost the role meanwhile), or a connection lost during `COMMIT` left the outcome
    /// unknown; never reported as success.
    pub async fn commit(mut self, event: &AuditEvent) -> Result<(), ApiError> {
        self.record(event).await?;
        self.commit_recorded().await
    }

    /// Commits a transaction whose rows were written by [`Self::record`].
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub async fn commit_recorded(self) -> Result<(), ApiError> {
        if let Some(confirm) = self.confirmation {
            confirm().await?;
        }
        self.tx.commit().await?;
        crate::contention::committed();
        Ok(())
    }

    /// Commits one phase of a change that spans two stores; the final phase writes the audit row.
    ///
    /// # Errors
    /// As [`Self::commit`].
    pub(crate) async fn commit_phase(self) -> Result<(), ApiError> {
        self.commit_recorded().await
    }

    /// Ends a transaction that changed nothing: no change, no audit row.
    ///
    /// # Errors
    /// 503 when the database cannot be asked.
    pub async fn unchanged(self) -> Result<(), ApiError> {
        self.tx.rollback().await?;
        Ok(())
    }
}

/// One audit row as clients see it (specification: History entry).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// When it was written.
    pub occurred_at: Timestamp,
    /// The subject that acted, or `system:<worker>`.
    pub actor: String,
    /// [`AuditEvent::action`].
    pub action: String,
    /// [`AuditEvent::subject`].
    pub subject: String,
    /// [`AuditEvent::payload`].
    pub payload: Value,
}

#[derive(sqlx::FromRow)]
struct Written {
    occurred_at: OffsetDateTime,
    actor: String,
    action: String,
    subject: String,
    payload: Value,
}

/// Audit rows that a caller may not see.
#[derive(Clone, Debug, PartialEq)]
pub struct Hidden {
    /// Their [`AuditEvent::action`].
    pub action: &'static str,
    /// Members that their payload has.
    pub payload: Value,
}

/// The objects around an object, some of whose audit rows its history has as well.
#[derive(Clone, Debug, PartialEq)]
pub struct Around {
    /// Their [`AuditEvent::subject`]s, each with its owner, whose own actions are left out.
    pub objects: Vec<(String, Subject)>,
    /// The [`AuditEvent::action`]s that are included.
    pub actions: &'static [&'static str],
}

/// The audit rows of one object (`<type>:<id>`) without the hidden ones, oldest first, at most [`MAX_HISTORY`].
pub(crate) async fn history(
    core: &Core,
    company: CompanyId,
    subject: &str,
    hidden: &[Hidden],
) -> Result<Vec<HistoryEntry>, ApiError> {
    // As in `record`.
    let sql = format!(
        "SELECT occurred_at, actor, action, subject, payload FROM audit.{}__events e \
         WHERE company_id = $1 AND subject = $2 \
           AND NOT EXISTS (SELECT FROM unnest($4::text[], $5::jsonb[]) AS hidden(action, payload) \
             WHERE e.action = hidden.action AND e.payload @> hidden.payload) \
         ORDER BY seq DESC LIMIT $3",
        core.name
    );
    let actions: Vec<&str> = hidden.iter().map(|hidden| hidden.action).collect();
    let payloads: Vec<&Value> = hidden.iter().map(|hidden| &hidden.payload).collect();
    let asked = sqlx::query_as(AssertSqlSafe(sql)).bind(company.as_uuid()).bind(subject).bind(limit()?);
    entries(core, asked.bind(actions).bind(payloads)).await
}

/// The audit rows of one object and those of the objects around it, oldest first, at most [`MAX_HISTORY`] together.
pub(crate) async fn history_around(
    core: &Core,
    company: CompanyId,
    subject: &str,
    around: &Around,
) -> Result<Vec<HistoryEntry>, ApiError> {
    // As in `record`. Each object's rows are read by the index, latest first, and only as many as are shown.
    let sql = format!(
        "SELECT e.* FROM (SELECT $2 AS subject, NULL AS owner \
             UNION ALL SELECT * FROM unnest($4::text[], $5::text[])) AS wanted \
           CROSS JOIN LATERAL (SELECT occurred_at, actor, action, subject, payload, seq FROM audit.{}__events \
             WHERE company_id = $1 AND subject = wanted.subject \
               AND (wanted.owner IS NULL OR (actor <> wanted.owner AND action = ANY($6::text[]))) \
             ORDER BY seq DESC LIMIT $3) e \
         ORDER BY e.seq DESC LIMIT $3",
        core.name
    );
    let asked = sqlx::query_as(AssertSqlSafe(sql)).bind(company.as_uuid()).bind(subject).bind(limit()?);
    let (subjects, owners): (Vec<&str>, Vec<&str>) =
        around.objects.iter().map(|(subject, owner)| (subject.as_str(), owner.as_str())).unzip();
    entries(core, asked.bind(subjects).bind(owners).bind(around.actions)).await
}

fn limit() -> Result<i64, ApiError> {
    i64::try_from(MAX_HISTORY).map_err(ApiError::internal)
}

/// Reads rows that are ordered latest first.
async fn entries(
    core: &Core,
    asked: QueryAs<'_, Postgres, Written, PgArguments>,
) -> Result<Vec<HistoryEntry>, ApiError> {
    let rows: Vec<Written> = asked.fetch_all(&core.pool).await?;
    let entry = |row: Written| {
        let Written { occurred_at, actor, action, subject, payload } = row;
        HistoryEntry { occurred_at: Timestamp::from(occurred_at), actor, action, subject, payload }
    };
    Ok(rows.into_iter().rev().map(entry).collect())
}

/// The payload of a change: every member of `after` whose value differs from the one in `before`, as `{from, to}`. An
/// empty map means that nothing changed; without `before` every member is new.
///
/// # Errors
/// Either value does not serialise to a JSON object, which is a bug in its type.
pub fn changes<T: Serialize>(before: Option<&T>, after: &T) -> Result<Map<String, Value>, ApiError> {
    let before = before.map_or(Ok(Map::new()), members)?;
    let changed = members(after)?.into_iter().filter_map(|(name, to)| {
        let from = before.get(&name).cloned().unwrap_or_default();
        (from != to).then(|| (name, json!({ "from": from, "to": to })))
    });
    Ok(changed.collect())
}

fn members<T: Serialize>(value: &T) -> Result<Map<String, Value>, ApiError> {
    let Value::Object(members) = serde_json::to_value(value).map_err(ApiError::internal)? else {
        return Err(ApiError::internal("only an object has members to compare"));
    };
    Ok(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_told_and_everything_is_new_without_a_before() {
        let before = json!({"name": "a", "open": true, "note": null});
        let after = json!({"name": "b", "open": true, "note": null});
        let told = |before: Option<&Value>, after: &Value| changes(before, after).expect("objects");
        assert_eq!(Value::Object(told(Some(&before), &after)), json!({"name": {"from": "a", "to": "b"}}));
        assert!(told(Some(&after), &after).is_empty());
        assert_eq!(told(None, &after).len(), 2, "a null that was absent before is not a change");
    }
}
