//! The upkeep of the change log (`feed.change`): rows that every reader has left behind are removed. A row has no time of
//! its own; so the pruner remembers, now and then, below which transaction everything had ended, and an hour later removes
//! what is older than that. How far rows were removed is told in the log itself (`feed.epoch`), not by anybody's clock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use service::workers::{Next, Step};
use sqlx::PgPool;
use uuid::Uuid;

/// How long a row stays; a reader that is further behind loads everything anew.
const KEPT: Duration = Duration::from_hours(1);
/// How often the pruner looks.
pub(crate) const INTERVAL: Duration = Duration::from_mins(10);
/// Rows of one statement, so that none of them runs into the role's time limit.
const BATCH: i64 = 10_000;

/// Prunes with every step.
pub(crate) struct Pruning {
    pool: PgPool,
    pruner: Pruner,
}

impl Pruning {
    /// Of the log in the database of `pool`.
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

/// Remembers when which transactions had ended.
#[derive(Debug, Default)]
pub struct Pruner {
    marks: VecDeque<Mark>,
}

/// Of one log: another one counts its transactions anew.
#[derive(Debug)]
struct Mark {
    at: Instant,
    epoch: Uuid,
    /// Everything before it had ended.
    oldest: String,
}

impl Pruner {
    /// Removes what is older than [`KEPT`] at `now`; returns how many rows.
    ///
    /// # Errors
    /// The database cannot be asked; what was due is removed with a later mark.
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

/// `None`: the log is not this database's own.
async fn mark(pool: &PgPool, at: Instant) -> sqlx::Result<Option<Mark>> {
    let row = sqlx::query!(
        r#"SELECT feed.own_epoch() AS epoch, pg_snapshot_xmin(pg_current_snapshot())::text AS "oldest!""#
    )
    .fetch_one(pool)
    .await?;
    Ok(row.epoch.map(|epoch| Mark { at, epoch, oldest: row.oldest }))
}

/// The watermark first: a reader that is behind it begins anew, whatever its clock says.
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
