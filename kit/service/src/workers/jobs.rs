//! The statements on a table of jobs, the same for every queue: make ready, settle, age of the oldest; and
//! [`JobTable::claim`].
//!
//! A table of jobs is `<schema>.<name>` of the service that runs them, with these columns besides its own:
//!
//! ```sql
//! id uuid PRIMARY KEY, <key> uuid NOT NULL, <company> uuid NOT NULL, claim_group text NOT NULL DEFAULT 'default',
//! state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done', 'dead')),
//! attempt_count int NOT NULL DEFAULT 0 CHECK (attempt_count BETWEEN 0 AND 100),
//! next_attempt_at timestamptz NOT NULL DEFAULT now(), settled_at timestamptz,
//! lease_token uuid, leased_until timestamptz, is_ready boolean NOT NULL DEFAULT false,
//! CHECK ((state = 'pending') = (settled_at IS NULL)), CHECK ((lease_token IS NULL) = (leased_until IS NULL)),
//! CHECK (state = 'pending' OR lease_token IS NULL), CHECK (state = 'pending' OR NOT is_ready)
//! CREATE INDEX … ON …(claim_group, <company>, <key>, next_attempt_at) WHERE is_ready AND state = 'pending';
//! CREATE INDEX … ON …(claim_group, greatest(next_attempt_at, leased_until)) WHERE NOT is_ready AND state = 'pending';
//! ```
//!
//! A job is ready when a claim may take it: it is pending and due, and no worker has leased it. Jobs that are due at once
//! are added as ready, and a statement that makes others due makes them ready; a claim and a settlement reset it. For
//! jobs whose time comes or whose lease expires, [`JobTable::make_ready`] sets it at each poll. Keys without ready jobs,
//! however many wait for their next attempt, cost a claim nothing.
//!
//! The previous release knows no `is_ready` and may still run beside this one. It adds jobs that are not ready, which
//! the next poll finds, and it leases, postpones and settles jobs without resetting `is_ready`. Tables that it writes
//! therefore do not have the last `CHECK` yet, and statements compare state, time and lease besides.
//!
//! The key (a channel, a company) is the unit of fairness: no key may occupy all workers. All jobs of a key belong to
//! one company; where the key is the company, `<company>` names the same column, and its index is on it once. Companies
//! come first: they take turns, however many keys they have. Jobs of one key are claimed in order; there is no
//! order between keys.
//!
//! All times are the database's. Every lease has a token; settling without the current token changes nothing.

use std::time::Duration;

use sqlx::postgres::types::PgInterval;
use sqlx::{AssertSqlSafe, PgConnection, PgPool};
use uuid::Uuid;

use super::Settlement;

/// Settled jobs that one statement removes.
const SWEPT_AT_ONCE: i64 = 1_000;
/// Jobs that one statement makes ready.
const READY_AT_ONCE: i64 = 1_000;

/// A table of jobs, named by constants of the program.
#[derive(Clone, Copy, Debug)]
pub struct JobTable {
    /// `<schema>.<table>`.
    pub table: &'static str,
    /// The column of the keys among which the slots are shared.
    pub key: &'static str,
    /// The column of the company that a key belongs to; [`Self::key`] where the company is the key.
    pub company: &'static str,
}

/// Retention of settled jobs.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Days for completed jobs.
    pub done_days: i32,
    /// Days for dead jobs.
    pub dead_days: i32,
}

/// A job with its lease.
#[derive(Clone, Debug)]
pub struct Leased<J> {
    /// The lease.
    pub lease: Lease,
    /// The columns that the queue reads.
    pub job: J,
}

/// The right to settle a job, until another claim takes the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The job.
    pub id: Uuid,
    /// The claim's token.
    pub token: Uuid,
    /// The job's key.
    pub key: Uuid,
    /// The company that the key belongs to.
    pub company: Uuid,
    /// The number of this attempt, counted from 1.
    pub attempt: usize,
    /// Whether the last attempt was lost with its worker, so that no attempt is left and the job does not run again.
    pub is_spent: bool,
}

impl JobTable {
    /// Makes jobs of the group ready that are due and not leased, a thousand at most to lock few rows at a time, the
    /// longest due first; true when there may be more. Skips jobs that another statement has locked.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn make_ready(&self, pool: &PgPool, group: &str) -> sqlx::Result<bool> {
        let made = sqlx::query(AssertSqlSafe(self.make_ready_sql())).bind(group).execute(pool).await?;
        Ok(i64::try_from(made.rows_affected()).is_ok_and(|made| made >= READY_AT_ONCE))
    }

    /// The statement of [`Self::make_ready`]. Parameter: group.
    #[must_use]
    pub fn make_ready_sql(&self) -> String {
        format!(
            "UPDATE {0} SET is_ready = true WHERE id = ANY(ARRAY(
               SELECT id FROM {0}
                WHERE claim_group = $1 AND state = 'pending' AND NOT is_ready
                  AND greatest(next_attempt_at, leased_until) <= now()
                ORDER BY greatest(next_attempt_at, leased_until) LIMIT {READY_AT_ONCE} FOR UPDATE SKIP LOCKED))",
            self.table
        )
    }

    /// Stores the outcome of an attempt. False when the lease was lost to another claim or the job is settled: nothing
    /// changed, and the caller must abandon the transaction with everything else it wrote about this attempt.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn settle(
        &self,
        conn: &mut PgConnection,
        lease: &Lease,
        settlement: Settlement,
    ) -> sqlx::Result<bool> {
        let sql = format!(
            "UPDATE {} SET state = $3, settled_at = CASE WHEN $3 = 'pending' THEN NULL ELSE now() END,
                    next_attempt_at = CASE WHEN $3 = 'pending' THEN now() + $4::interval ELSE next_attempt_at END,
                    attempt_count = GREATEST(attempt_count - $5, 0), lease_token = NULL, leased_until = NULL,
                    is_ready = ($3 = 'pending' AND $4::interval <= interval '0')
              WHERE id = $1 AND lease_token = $2 AND state = 'pending'",
            self.table
        );
        let (state, wait, given_back) = match settlement {
            Settlement::Done => ("done", Duration::ZERO, 0),
            Settlement::Again { after } => ("pending", after, 0),
            // The claim counted an attempt that did not take place.
            Settlement::Postponed { after } => ("pending", after, 1),
            Settlement::Dead => ("dead", Duration::ZERO, 0),
        };
        let done = sqlx::query(AssertSqlSafe(sql))
            .bind(lease.id)
            .bind(lease.token)
            .bind(state)
            .bind(interval(wait))
            .bind(given_back)
            .execute(conn)
            .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Removes settled jobs past their retention, a thousand per statement to lock few rows at a time; returns their
    /// number. Needs `CREATE INDEX … ON …(state, settled_at) WHERE state <> 'pending'`.
    ///
    /// # Errors
    /// The database is unavailable; earlier batches stay removed.
    pub async fn sweep(&self, pool: &PgPool, kept: Kept) -> sqlx::Result<u64> {
        let sql = format!(
            "DELETE FROM {0} WHERE id = ANY(ARRAY(
               SELECT id FROM {0} WHERE state = $1 AND state <> 'pending' AND settled_at < now() - make_interval(days => $2)
                ORDER BY settled_at LIMIT $3 FOR UPDATE SKIP LOCKED))",
            self.table
        );
        let mut removed = 0;
        for (state, days) in [("done", kept.done_days), ("dead", kept.dead_days)] {
            loop {
                let sweep =
                    sqlx::query(AssertSqlSafe(sql.clone())).bind(state).bind(days).bind(SWEPT_AT_ONCE);
                let batch = sweep.execute(pool).await?.rows_affected();
                removed += batch;
                if i64::try_from(batch).is_ok_and(|batch| batch < SWEPT_AT_ONCE) {
                    break;
                }
            }
        }
        Ok(removed)
    }

    /// How long the oldest due, unclaimed job has waited past its time; zero if there is none.
    ///
    /// # Errors
    /// The database is unavailable.
    pub async fn oldest(&self, pool: &PgPool, group: &str) -> sqlx::Result<Duration> {
        let sql = format!(
            "SELECT GREATEST(EXTRACT(EPOCH FROM now() - min(next_attempt_at)), 0)::float8 FROM {}
              WHERE claim_group = $1 AND state = 'pending' AND (leased_until IS NULL OR leased_until < now())",
            self.table
        );
        let seconds: Option<f64> = sqlx::query_scalar(AssertSqlSafe(sql)).bind(group).fetch_one(pool).await?;
        Ok(Duration::try_from_secs_f64(seconds.unwrap_or_default()).unwrap_or_default())
    }
}

pub(super) fn interval(duration: Duration) -> PgInterval {
    let microseconds = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    PgInterval { months: 0, days: 0, microseconds }
}
