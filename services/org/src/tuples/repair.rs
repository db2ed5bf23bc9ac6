//! Compares the derived tuples with their rows in the background after each start, in portions, and repairs any
//! difference. A first pass over the members adds missing tuples; a second pass over the tuples removes those without a
//! row. No difference is expected, so every repair is logged and audited. A portion is read without locks; a repair
//! computes the tuples again while it holds the company's row.

use std::collections::BTreeMap;
use std::time::Duration;

use contract::id::{CompanyId, MemberId};
use serde_json::json;
use service::workers::{Next, Pace, Step};
use service::{ApiError, AuditEvent, Core, transaction};
use sqlx::{PgConnection, Postgres, Transaction};
use uuid::Uuid;

use super::store::{self, Kind};

/// Actor of the audit rows.
const ACTOR: &str = "system:tuple-repair";
/// Rows per portion: a few tens of milliseconds of the database's time. Bounds how long a company's writers wait if all
/// rows differ.
const PORTION: i64 = 1_000;
/// Pause between two portions, which gives requests priority.
const PAUSE: Duration = Duration::from_millis(10);
/// Delay before a retry while the database does not answer.
const RETRY: Duration = Duration::from_millis(500);
/// Statement timeout of a portion. Long, because no request waits for it and a busy database should not cause retries.
const TIME_LIMIT: &str = "SET LOCAL statement_timeout = '30s'";

/// Starts the comparison.
pub(crate) fn start(core: &Core) {
    let at = Cursor::Members(CompanyId::from(Uuid::nil()), MemberId::from(Uuid::nil()));
    core.workers.every(
        "tuple_repair",
        Pace::every(RETRY),
        Repair { core: core.for_workers(), at, changed: 0 },
    );
}

/// The row after which the next portion begins.
#[derive(Clone, Debug)]
enum Cursor {
    Members(CompanyId, MemberId),
    Tuples(Kind, (String, String)),
}

impl Cursor {
    fn of(kind: Kind) -> Self {
        Self::Tuples(kind, (String::new(), String::new()))
    }
}

struct Repair {
    core: Core,
    at: Cursor,
    changed: u64,
}

impl Step for Repair {
    type Error = ApiError;

    /// Processes one portion. A failed portion is compared again; its completed repairs remain.
    async fn step(&mut self) -> Result<Next, ApiError> {
        let (next, changed) = match &self.at {
            Cursor::Members(company, member) => self.members((*company, *member)).await?,
            Cursor::Tuples(kind, after) => self.tuples(*kind, after).await?,
        };
        self.changed += changed;
        let Some(next) = next else {
            tracing::info!(changed = self.changed, "derived tuples compared with their rows");
            return Ok(Next::Done);
        };
        self.at = next;
        Ok(Next::In(PAUSE))
    }
}

impl Repair {
    /// Processes a portion of members; returns where the next one begins and the number of changed tuples.
    async fn members(&self, after: (CompanyId, MemberId)) -> Result<(Option<Cursor>, u64), ApiError> {
        let mut tx = self.read().await?;
        let portion = store::members_after(&mut *tx, after, PORTION).await?;
        tx.commit().await?;
        let changed = self.rewrite(portion.lacking.into_iter()).await?;
        let next = portion.last.map(|(company, member)| Cursor::Members(company, member));
        Ok((Some(next.unwrap_or_else(|| Cursor::of(Kind::Company))), changed))
    }

    /// Processes a portion of tuples; returns where the next one begins and the number of changed tuples.
    async fn tuples(&self, kind: Kind, after: &(String, String)) -> Result<(Option<Cursor>, u64), ApiError> {
        let mut tx = self.read().await?;
        let portion = store::tuples_after(&mut *tx, kind, after, PORTION).await?;
        tx.commit().await?;
        let (known, orphans): (Vec<_>, Vec<_>) =
            portion.stale.into_iter().partition(|stale| stale.company.is_some());
        let known = known.into_iter().filter_map(|stale| Some((stale.company?, stale.subject)));
        let changed = self.rewrite(known).await?;
        let mut objects: Vec<String> = orphans.into_iter().map(|stale| stale.object).collect();
        objects.dedup();
        let removed = if objects.is_empty() { 0 } else { self.remove_orphans(kind, &objects).await? };
        let next = portion.last.map(|after| Cursor::Tuples(kind, after));
        Ok((next.or_else(|| kind.next().map(Cursor::of)), changed + removed))
    }

    async fn read(&self) -> Result<Transaction<'static, Postgres>, ApiError> {
        let mut tx = transaction::begin(&self.core.pool, "BEGIN").await?;
        limit_time(&mut tx).await?;
        Ok(tx)
    }

    async fn rewrite(&self, differing: impl Iterator<Item = (CompanyId, String)>) -> Result<u64, ApiError> {
        let mut subjects: BTreeMap<CompanyId, Vec<String>> = BTreeMap::new();
        for (company, subject) in differing {
            subjects.entry(company).or_default().push(subject);
        }
        let mut changed = 0;
        for (company, subjects) in subjects {
            changed += self.repair(company, &subjects).await?;
        }
        Ok(changed)
    }

    async fn repair(&self, company: CompanyId, subjects: &[String]) -> Result<u64, ApiError> {
        let mut tx = self.core.begin_as(ACTOR, None).await?;
        limit_time(tx.conn()).await?;
        store::hold_company(tx.conn(), company).await?;
        let changed = store::rewrite(tx.conn(), company, subjects).await?;
        if changed == 0 {
            tx.unchanged().await?;
            return Ok(0);
        }
        tracing::warn!(%company, changed, "derived tuples differed from their rows");
        tx.commit(&event(Some(company), changed)).await?;
        Ok(changed)
    }

    async fn remove_orphans(&self, kind: Kind, objects: &[String]) -> Result<u64, ApiError> {
        let mut tx = self.core.begin_as(ACTOR, None).await?;
        limit_time(tx.conn()).await?;
        let changed = store::remove_orphans(tx.conn(), kind, objects).await?;
        if changed == 0 {
            tx.unchanged().await?;
            return Ok(0);
        }
        tracing::warn!(changed, "derived tuples of objects that do not exist");
        tx.commit(&event(None, changed)).await?;
        Ok(changed)
    }
}

async fn limit_time(conn: &mut PgConnection) -> sqlx::Result<()> {
    sqlx::raw_sql(TIME_LIMIT).execute(conn).await.map(drop)
}

fn event(company: Option<CompanyId>, changed: u64) -> AuditEvent {
    let subject = company.map_or_else(|| "tuples:orphans".to_owned(), |company| format!("company:{company}"));
    AuditEvent { company, action: "tuples.repaired", subject, payload: json!({ "changed": changed }) }
}
