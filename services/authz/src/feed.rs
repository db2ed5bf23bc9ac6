//! The upkeep of the change log (`feed.change`): rows that every reader has left behind are removed. A row has no time of
//! its own; so the pruner remembers, now and then, below which transaction everything had ended, and an hour later removes
//! what is older than that.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use sqlx::PgPool;
use tokio_util::sync::CancellationToken;

/// How long a row stays; a reader that is further behind loads everything anew.
const KEPT: Duration = Duration::from_hours(1);
/// How often the pruner looks.
const INTERVAL: Duration = Duration::from_mins(10);
/// Rows of one statement, so that none of them runs into the role's time limit.
const BATCH: i64 = 10_000;

/// Prunes until `stop`.
pub async fn keep_short(pool: PgPool, stop: CancellationToken) {
    let mut pruner = Pruner::default();
    loop {
        if let Err(error) = pruner.step(&pool, Instant::now()).await {
            tracing::warn!(%error, "the change log could not be pruned");
        }
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(INTERVAL) => {}
        }
    }
}

/// Remembers when which transactions had ended.
#[derive(Debug, Default)]
pub struct Pruner {
    marks: VecDeque<(Instant, String)>,
}

impl Pruner {
    /// Removes what is older than [`KEPT`] at `now`; returns how many rows.
    ///
    /// # Errors
    /// The database cannot be asked; what was due is removed with a later mark.
    pub async fn step(&mut self, pool: &PgPool, now: Instant) -> sqlx::Result<u64> {
        let oldest = oldest_running(pool).await?;
        self.marks.push_back((now, oldest));
        let mut due = None;
        while let Some((at, _)) = self.marks.front() {
            if now.duration_since(*at) < KEPT {
                break;
            }
            due = self.marks.pop_front();
        }
        match due {
            Some((_, before)) => remove(pool, &before).await,
            None => Ok(0),
        }
    }
}

async fn oldest_running(pool: &PgPool) -> sqlx::Result<String> {
    sqlx::query_scalar!(r#"SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS "xmin!""#)
        .fetch_one(pool)
        .await
}

async fn remove(pool: &PgPool, before: &str) -> sqlx::Result<u64> {
    let mut removed = 0;
    loop {
        let rows = sqlx::query!(
            "DELETE FROM feed.change WHERE (xid, seq) IN
               (SELECT xid, seq FROM feed.change WHERE xid < $1::text::xid8 ORDER BY xid, seq LIMIT $2)",
            before,
            BATCH,
        )
        .execute(pool)
        .await?
        .rows_affected();
        removed += rows;
        if rows < BATCH.unsigned_abs() {
            return Ok(removed);
        }
    }
}
