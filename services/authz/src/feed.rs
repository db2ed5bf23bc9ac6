//! Prunes the change log (`feed.change`): removes rows that every reader has passed. A row carries no timestamp, so the
//! pruner periodically records the transaction before which everything had ended, and an hour later removes the rows
//! older than that mark. The log itself (`feed.epoch`) records how far it was trimmed, so readers need no clock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use service::workers::{Next, Step};
use sqlx::PgPool;
use uuid::Uuid;

/// How long a row is kept; a reader that falls further behind reloads everything.
const KEPT: Duration = Duration::from_hours(1);
/// Interval between two steps of the pruner.
pub(crate) const INTERVAL: Duration = Duration::from_mins(10);
/// Rows per statement, few enough to stay within the role's time limit.
const BATCH: i64 = 10_000;

/// The worker step that prunes the log.
pub(crate) struct Pruning {
    pool: PgPool,
    pruner: Pruner,
}

impl Pruning {
    /// Prunes the log in the database of `pool`.
    pub(crate) fn on(pool: PgPool) -> Self {
        Self { pool, pruner: Pruner::default() }
    }
}

impl Step for Pruning {
    type Error = sqlx::Error;

    async fn step(&mut self) -> sqlx::Result<Next> {
        self.pruner.step(&self.pool, Instant::now()).await.map(|_| Next::Interval)
    }
}

/// Records, for each mark, which transactions had ended by then.
#[derive(Debug, Default)]
pub struct Pruner {
    marks: VecDeque<Mark>,
}

/// A mark in one log. Another log counts its transactions from the start.
#[derive(Debug)]
struct Mark {
    at: Instant,
    epoch: Uuid,
    /// Every transaction before this one had ended.
    oldest: String,
}

impl Pruner {
    /// Removes what is older than [`KEPT`] at `now` and returns the number of rows.
    ///
    /// # Errors
    /// The database cannot be queried; a later mark removes the rows that were due.
    pub async fn step(&mut self, pool: &PgPool, now: Instant) -> sqlx::Result<u64> {
        let Some(mark) = mark(pool, now).await? else {
            self.marks.clear();
            return Ok(0);
        };
        self.marks.retain(|known| known.epoch == mark.epoch);
        self.marks.push_back(mark);
        let mut due = None;
        while let Some(Mark { at, .. }) = self.marks.front() {
            if now.duration_since(*at) < KEPT {
                break;
            }
            due = self.marks.pop_front();
        }
        match due {
            Some(mark) => remove(pool, &mark).await,
            None => Ok(0),
        }
    }
}

/// Returns the current mark, or `None` when the log is not this database's own.
async fn mark(pool: &PgPool, at: Instant) -> sqlx::Result<Option<Mark>> {
    let row = sqlx::query!(
        r#"SELECT feed.own_epoch() AS epoch, pg_snapshot_xmin(pg_current_snapshot())::text AS "oldest!""#
    )
    .fetch_one(pool)
    .await?;
    Ok(row.epoch.map(|epoch| Mark { at, epoch, oldest: row.oldest }))
}

/// Trims in batches. `feed.trim` moves the watermark first, so a reader behind it starts over whatever its clock says.
async fn remove(pool: &PgPool, mark: &Mark) -> sqlx::Result<u64> {
    let mut removed = 0;
    loop {
        let rows = sqlx::query_scalar!(
            r#"SELECT feed.trim($1, $2::text::xid8, $3) AS "rows!""#,
            mark.epoch,
            mark.oldest,
            BATCH,
        )
        .fetch_one(pool)
        .await?;
        removed += rows.unsigned_abs();
        if rows < BATCH {
            return Ok(removed);
        }
    }
}
