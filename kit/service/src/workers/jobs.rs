//! The statements on a table of jobs, the same for every queue: make ready, claim under a lease, settle, age of the oldest.
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
//! CREATE INDEX … ON …(claim_group, <key>, next_attempt_at) WHERE is_ready AND state = 'pending';
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
//! The key (a channel, a company) is the unit of fairness: no key may occupy all workers. A claim goes from key to key,
//! round after round, and takes the oldest ready jobs of each. A key with a long backlog costs the others nothing, and
//! settled jobs are in no index that a claim reads. Jobs of one key are claimed in order; there is no order between
//! keys. All jobs of a key belong to one company, whose keys together may hold only a share of a worker's room for
//! waiting; where the key is the company, `<company>` names the same column.
//!
//! All times are the database's. Every lease has a token; settling without the current token changes nothing.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::postgres::types::PgInterval;
use sqlx::{AssertSqlSafe, FromRow, PgConnection, PgPool, Row};
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

/// What a worker is ready to take.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Most jobs.
    pub room: i64,
    /// Keys that the claim examines, each at the cost of one or two index reads: a claim stays cheap however many keys
    /// have ready jobs and may start none.
    pub look: i64,
    /// Most running jobs of one key.
    pub per_key: i64,
    /// Keys of the jobs running now.
    pub keys: Vec<Uuid>,
    /// How many jobs of each of these keys are running now.
    pub running: Vec<i64>,
    /// Companies that hold their share of the room for waiting; none of their jobs is taken.
    pub full: Vec<Uuid>,
    /// The key after which the round continues; `None` to start over.
    pub after: Option<Uuid>,
    /// How long the worker owns the jobs.
    pub lease: Duration,
    /// Attempts per job.
    pub attempts: i32,
}

/// The result of a claim.
#[derive(Debug)]
pub struct Claimed<J> {
    /// The jobs, each under a lease.
    pub jobs: Vec<Leased<J>>,
    /// Where the next claim continues.
    pub after: Option<Uuid>,
    /// Whether some keys were not examined although there was room.
    pub is_partial: bool,
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

    /// Takes ready jobs of the group under a new lease, in one statement. Skips jobs that another claim has locked.
    ///
    /// # Errors
    /// The database is unavailable, or a column has the wrong type.
    pub async fn claim<J>(&self, pool: &PgPool, group: &str, ask: &Ask) -> sqlx::Result<Claimed<J>>
    where
        J: for<'r> FromRow<'r, PgRow>,
    {
        let token = Uuid::new_v4();
        let rows = sqlx::query(AssertSqlSafe(self.claim_sql()))
            .bind(group)
            .bind(ask.after)
            .bind(ask.look)
            .bind(&ask.keys)
            .bind(&ask.running)
            .bind(ask.per_key)
            .bind(ask.room)
            .bind(token)
            .bind(interval(ask.lease))
            .bind(ask.attempts)
            .bind(&ask.full)
            .fetch_all(pool)
            .await?;
        self.claimed(&rows, token, ask)
    }

    /// The statement of [`Self::claim`]. Parameters: group, key to continue after, keys to examine, keys and numbers of
    /// running jobs, jobs per key, jobs, token, lease, attempts, full companies.
    #[must_use]
    pub fn claim_sql(&self) -> String {
        let Self { table, key, company } = self;
        // The first key with ready jobs after a given key, or the first of all: one index read each.
        let next = |after: &str| {
            let first = |and: &str| {
                format!(
                    "(SELECT j.{key} FROM {table} j WHERE j.claim_group = $1 AND j.is_ready AND j.state = 'pending' {and} \
                     ORDER BY j.{key} LIMIT 1)"
                )
            };
            format!("COALESCE({}, {})", first(&format!("AND j.{key} > {after}")), first(""))
        };
        let (start, following) = (next("$2"), next("keys.key"));
        // The company of a key is read from its first job, and only when some company is full and the key is not.
        let company = if company == key {
            "keys.key".to_owned()
        } else {
            format!(
                "(SELECT j.{company} FROM {table} j WHERE j.claim_group = $1 AND j.is_ready AND j.state = 'pending' \
                 AND j.{key} = keys.key ORDER BY j.next_attempt_at LIMIT 1)"
            )
        };
        // `OFFSET 0` keeps the planner from evaluating the next key once per use.
        // With an array of ids the planner uses the primary key, however many ready jobs it expects; a join
        // with a long backlog would read the whole table.
        format!(
            "WITH RECURSIVE keys(key, first, place) AS (
               SELECT start.key, start.key, 1::bigint FROM (SELECT {start} AS key OFFSET 0) AS start WHERE start.key IS NOT NULL
                UNION ALL
               SELECT following.key, keys.first, keys.place + 1
                 FROM keys CROSS JOIN LATERAL (SELECT {following} AS key OFFSET 0) AS following
                WHERE keys.place < $3 AND following.key <> keys.first
             ), due AS MATERIALIZED (
               SELECT job.id, job.attempt_count, keys.place
                 FROM keys LEFT JOIN unnest($4::uuid[], $5::bigint[]) AS busy(key, jobs) ON busy.key = keys.key
                CROSS JOIN LATERAL (
                  SELECT j.id, j.attempt_count FROM {table} j
                   WHERE j.claim_group = $1 AND j.is_ready AND j.state = 'pending' AND j.{key} = keys.key
                     AND j.next_attempt_at <= now() AND (j.leased_until IS NULL OR j.leased_until < now())
                   ORDER BY j.next_attempt_at
                   LIMIT CASE WHEN busy.jobs >= $6::bigint THEN 0
                              WHEN cardinality($11::uuid[]) > 0 AND {company} = ANY($11::uuid[]) THEN 0
                              ELSE $6::bigint - COALESCE(busy.jobs, 0) END
                     FOR UPDATE SKIP LOCKED) AS job
                LIMIT $7
             ), claimed AS (
               UPDATE {table} AS j
                  SET is_ready = false, lease_token = $8, leased_until = now() + $9::interval,
                      attempt_count = LEAST(j.attempt_count + 1, $10)
                WHERE j.id = ANY (ARRAY(SELECT due.id FROM due))
               RETURNING j.*
             )
             SELECT claimed.*, due.attempt_count >= $10 AS claim_is_spent,
                    looked.place AS claim_places, looked.key AS claim_last
               FROM (SELECT keys.place, keys.key FROM keys ORDER BY keys.place DESC LIMIT 1) AS looked
               LEFT JOIN (claimed JOIN due ON due.id = claimed.id) ON true
              ORDER BY due.place"
        )
    }

    /// Reads the rows: none when no key has ready jobs; otherwise the number of examined keys, in one row per job or
    /// one row without a job.
    fn claimed<J>(&self, rows: &[PgRow], token: Uuid, ask: &Ask) -> sqlx::Result<Claimed<J>>
    where
        J: for<'r> FromRow<'r, PgRow>,
    {
        let Some(last) = rows.last() else {
            return Ok(Claimed { jobs: Vec::new(), after: None, is_partial: false });
        };
        let mut jobs = Vec::with_capacity(rows.len());
        for row in rows {
            if let Some(id) = row.try_get::<Option<Uuid>, _>("id")? {
                let attempt: i32 = row.try_get("attempt_count")?;
                let lease = Lease {
                    id,
                    token,
                    key: row.try_get(self.key)?,
                    company: row.try_get(self.company)?,
                    attempt: usize::try_from(attempt).unwrap_or_default(),
                    is_spent: row.try_get("claim_is_spent")?,
                };
                jobs.push(Leased { lease, job: J::from_row(row)? });
            }
        }
        let is_full = i64::try_from(jobs.len()).is_ok_and(|taken| taken >= ask.room);
        let after = match jobs.last() {
            // The claim examined the keys after this one, but took nothing from them for lack of room.
            Some(job) if is_full => job.lease.key,
            _ => last.try_get("claim_last")?,
        };
        let is_partial = !is_full && last.try_get::<i64, _>("claim_places")? >= ask.look;
        Ok(Claimed { jobs, after: Some(after), is_partial })
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

fn interval(duration: Duration) -> PgInterval {
    let microseconds = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
    PgInterval { months: 0, days: 0, microseconds }
}
