//! The statements over a table of jobs, the same for every queue: claim under a lease, settle, age of the oldest.
//!
//! A table of jobs is `<schema>.<name>` of the service that works on it, with these columns beside its own:
//!
//! ```sql
//! id uuid PRIMARY KEY, <key> uuid NOT NULL, claim_group text NOT NULL DEFAULT 'default',
//! state text NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done', 'dead')),
//! attempt_count int NOT NULL DEFAULT 0 CHECK (attempt_count BETWEEN 0 AND 100),
//! next_attempt_at timestamptz NOT NULL DEFAULT now(), settled_at timestamptz,
//! lease_token uuid, leased_until timestamptz,
//! CHECK ((state = 'pending') = (settled_at IS NULL)), CHECK ((lease_token IS NULL) = (leased_until IS NULL)),
//! CHECK (state = 'pending' OR lease_token IS NULL)
//! CREATE INDEX … ON …(claim_group, <key>, next_attempt_at) WHERE state = 'pending';
//! ```
//!
//! The key is what must not hold all workers: a channel, a company. A claim goes from key to key, round after round, and
//! takes the oldest due jobs of each: a key with a long backlog costs the others nothing, and settled jobs are in no index
//! that a claim reads. Between keys there is no order, within one there is.
//!
//! All time is the database's. Every lease has a token; what settles without the current one changes nothing.

use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::postgres::types::PgInterval;
use sqlx::{AssertSqlSafe, FromRow, PgConnection, PgPool, Row};
use uuid::Uuid;

use super::Settlement;

/// Settled jobs that one statement removes.
const SWEPT_AT_ONCE: i64 = 1_000;

/// A table of jobs, by names that are constants of the program.
#[derive(Clone, Copy, Debug)]
pub struct JobTable {
    /// `<schema>.<table>`.
    pub table: &'static str,
    /// The column whose values share the places.
    pub key: &'static str,
}

/// How long settled jobs are kept.
#[derive(Clone, Copy, Debug)]
pub struct Kept {
    /// Those that are done.
    pub done_days: i32,
    /// Those that were given up.
    pub dead_days: i32,
}

/// What a worker is free to take.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Most jobs.
    pub room: i64,
    /// Keys that the claim looks at, each for the price of one or two reads of the index: a claim stays cheap however many
    /// keys have jobs that are not due.
    pub look: i64,
    /// Most jobs of one key that run at once.
    pub per_key: i64,
    /// Keys of the jobs that run now.
    pub keys: Vec<Uuid>,
    /// How many jobs of each of these keys run now.
    pub running: Vec<i64>,
    /// The key after which the round goes on; `None`: from the start.
    pub after: Option<Uuid>,
    /// How long the jobs are the worker's alone.
    pub lease: Duration,
    /// Attempts that a job has.
    pub attempts: i32,
}

/// What a claim took.
#[derive(Debug)]
pub struct Claimed<J> {
    /// The jobs, each under a lease.
    pub jobs: Vec<Leased<J>>,
    /// Where the next claim goes on.
    pub after: Option<Uuid>,
    /// Some keys were not looked at although there was room.
    pub is_partial: bool,
}

/// A job and the right to settle it.
#[derive(Clone, Debug)]
pub struct Leased<J> {
    /// The right.
    pub lease: Lease,
    /// The columns that the queue reads.
    pub job: J,
}

/// The right to settle a job, until another claim takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The job.
    pub id: Uuid,
    /// Of the claim.
    pub token: Uuid,
    /// The job's key.
    pub key: Uuid,
    /// Which attempt this is, counted from 1.
    pub attempt: usize,
    /// The last attempt ended with its worker, so that no attempt is left: the job is not worked on again.
    pub is_spent: bool,
}

impl JobTable {
    /// Takes due jobs of the group under a new lease, in one statement. Jobs that another claim looks at are left to it.
    ///
    /// # Errors
    /// The database cannot be asked, or a column does not fit.
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
            .fetch_all(pool)
            .await?;
        self.claimed(&rows, token, ask)
    }

    /// The statement of [`Self::claim`]: group, key to go on after, keys to look at, keys and numbers of running jobs, jobs
    /// a key, jobs, token, lease, attempts.
    #[must_use]
    pub fn claim_sql(&self) -> String {
        let Self { table, key } = self;
        // The first key with pending jobs after a key, or the first of all: one read of the index each.
        let next = |after: &str| {
            let first = |and: &str| {
                format!(
                    "(SELECT j.{key} FROM {table} j WHERE j.claim_group = $1 AND j.state = 'pending' {and} \
                     ORDER BY j.{key} LIMIT 1)"
                )
            };
            format!("COALESCE({}, {})", first(&format!("AND j.{key} > {after}")), first(""))
        };
        let (start, following) = (next("$2"), next("keys.key"));
        // `OFFSET 0` keeps the planner from asking for each next key once a use of it.
        // An array of ids is looked up in the primary key whatever the planner thinks of the number of due jobs; joined to a
        // long backlog, the whole table would be read.
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
                   WHERE j.claim_group = $1 AND j.state = 'pending' AND j.{key} = keys.key
                     AND j.next_attempt_at <= now() AND (j.leased_until IS NULL OR j.leased_until < now())
                   ORDER BY j.next_attempt_at LIMIT GREATEST($6::bigint - COALESCE(busy.jobs, 0), 0)
                     FOR UPDATE SKIP LOCKED) AS job
                LIMIT $7
             ), claimed AS (
               UPDATE {table} AS j
                  SET lease_token = $8, leased_until = now() + $9::interval,
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

    /// No row: no key has pending jobs. Otherwise the places that were looked at, with one row a job, or one without.
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
                    attempt: usize::try_from(attempt).unwrap_or_default(),
                    is_spent: row.try_get("claim_is_spent")?,
                };
                jobs.push(Leased { lease, job: J::from_row(row)? });
            }
        }
        let is_full = i64::try_from(jobs.len()).is_ok_and(|taken| taken >= ask.room);
        let after = match jobs.last() {
            // The keys after this one were looked at, and nothing was taken of them for want of room.
            Some(job) if is_full => job.lease.key,
            _ => last.try_get("claim_last")?,
        };
        let is_partial = !is_full && last.try_get::<i64, _>("claim_places")? >= ask.look;
        Ok(Claimed { jobs, after: Some(after), is_partial })
    }

    /// Stores what became of an attempt. False: the lease was lost to another claim, or the job is settled; nothing changed,
    /// and whatever else the transaction wrote about this attempt must be given up.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn settle(
        &self,
        conn: &mut PgConnection,
        lease: &Lease,
        settlement: Settlement,
    ) -> sqlx::Result<bool> {
        let sql = format!(
            "UPDATE {} SET state = $3, settled_at = CASE WHEN $3 = 'pending' THEN NULL ELSE now() END,
                    next_attempt_at = CASE WHEN $3 = 'pending' THEN now() + $4::interval ELSE next_attempt_at END,
                    attempt_count = GREATEST(attempt_count - $5, 0), lease_token = NULL, leased_until = NULL
              WHERE id = $1 AND lease_token = $2 AND state = 'pending'",
            self.table
        );
        let (state, wait, given_back) = match settlement {
            Settlement::Done => ("done", Duration::ZERO, 0),
            Settlement::Again { after } => ("pending", after, 0),
            // The claim has counted an attempt that was none.
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

    /// Removes settled jobs whose time is over, a thousand with each statement so that few rows are locked at a time; tells
    /// how many. Needs `CREATE INDEX … ON …(state, settled_at) WHERE state <> 'pending'`.
    ///
    /// # Errors
    /// The database cannot be asked; what was removed before stays so.
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

    /// How long the oldest due job that nobody works on waits past its time; zero without one.
    ///
    /// # Errors
    /// The database cannot be asked.
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
