//! Claims: which ready jobs a worker takes next, in one statement under one lease.
//!
//! Companies take turns, and so do the keys of each. A claim goes from company to company and takes of each the oldest
//! ready jobs of one key, then of each another key, until there is no more room. So no company waits for the backlog of
//! another, however many keys that one has, and no key waits for the backlog of another key; settled jobs are in no index
//! that a claim reads. The next claim continues after the company and the keys where this one ended.
//!
//! A claim examines a bounded number of keys, since many may start no job. A company that may start none counts as one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, FromRow, PgPool, Row};
use uuid::Uuid;

use super::jobs::{JobTable, Lease, Leased, interval};

/// Most companies whose last key is remembered; the turns of the others begin with their first key.
const MAX_COMPANIES: usize = 20_000;

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
    /// Where the last claim ended.
    pub position: Position,
    /// How long the worker owns the jobs.
    pub lease: Duration,
    /// Attempts per job.
    pub attempts: i32,
}

/// Where a claim ended. The default starts over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The company whose turn was last.
    company: Option<Uuid>,
    /// The last key of each company that has more.
    keys: BTreeMap<Uuid, Uuid>,
}

/// The result of a claim.
#[derive(Debug)]
pub struct Claimed<J> {
    /// The jobs, each under a lease.
    pub jobs: Vec<Leased<J>>,
    /// Where the next claim continues.
    pub position: Position,
    /// Whether some keys were not examined although there was room.
    pub is_partial: bool,
}

impl Position {
    fn remember(&mut self, company: Uuid, key: Uuid) {
        if self.keys.len() < MAX_COMPANIES || self.keys.contains_key(&company) {
            self.keys.insert(company, key);
        }
    }

    /// The companies whose turns are next and their last keys, at most `most`.
    fn next(&self, most: usize) -> impl Iterator<Item = (Uuid, Uuid)> {
        let last = self.company.unwrap_or_default();
        let after = self.keys.range((Bound::Excluded(last), Bound::Unbounded));
        after.chain(self.keys.range(..=last)).take(most).map(|(company, key)| (*company, *key))
    }

    /// Forgets companies without ready jobs: those whose turns would have come among these companies' but did not.
    /// `is_all` says that no other company has any.
    fn forget_all_but(&mut self, examined: &BTreeSet<Uuid>, last: Uuid, is_all: bool) {
        let first = self.company.unwrap_or_default();
        let is_passed = |company: Uuid| {
            let (is_after, is_until) = (first < company, company <= last);
            if first < last { is_after && is_until } else { is_after || is_until }
        };
        self.keys.retain(|company, _| examined.contains(company) || !(is_all || is_passed(*company)));
    }
}

impl JobTable {
    /// Takes ready jobs of the group under a new lease, in one statement. Skips jobs that another claim has locked.
    ///
    /// # Errors
    /// The database is unavailable, or a column has the wrong type.
    pub async fn claim<J>(&self, pool: &PgPool, group: &str, ask: Ask) -> sqlx::Result<Claimed<J>>
    where
        J: for<'r> FromRow<'r, PgRow>,
    {
        let token = Uuid::new_v4();
        let most = usize::try_from(ask.look).unwrap_or_default();
        let (companies, last): (Vec<Uuid>, Vec<Uuid>) = ask.position.next(most).unzip();
        let rows = sqlx::query(AssertSqlSafe(self.claim_sql()))
            .bind(group)
            .bind(ask.position.company)
            .bind(ask.look)
            .bind(&ask.keys)
            .bind(&ask.running)
            .bind(ask.per_key)
            .bind(ask.room)
            .bind(token)
            .bind(interval(ask.lease))
            .bind(ask.attempts)
            .bind(&ask.full)
            .bind(companies)
            .bind(last)
            .fetch_all(pool)
            .await?;
        self.claimed(&rows, token, ask)
    }

    /// The statement of [`Self::claim`]. Parameters: group, company to continue after, keys to examine, keys and numbers
    /// of running jobs, jobs per key, jobs, token, lease, attempts, full companies, companies and keys to continue after.
    #[must_use]
    pub fn claim_sql(&self) -> String {
        let Self { table, key, company } = self;
        let walk = self.walk_sql();
        // `OFFSET 0` keeps the order. `ended` is where the turns ended for lack of room, and `examined` has the last key of
        // each company until there.
        // With an array of ids the planner uses the primary key, however many ready jobs it expects; a join
        // with a long backlog would read the whole table.
        format!(
            "WITH RECURSIVE {walk}, due AS MATERIALIZED (
               SELECT job.id, job.attempt_count, job.next_attempt_at, turns.place, turns.rank
                 FROM (SELECT * FROM ranked WHERE ranked.room > 0 ORDER BY ranked.rank, ranked.place OFFSET 0) AS turns
                CROSS JOIN LATERAL (
                  SELECT j.id, j.attempt_count, j.next_attempt_at FROM {table} j
                   WHERE j.claim_group = $1 AND j.is_ready AND j.state = 'pending'
                     AND j.{company} = turns.company AND j.{key} = turns.key
                     AND j.next_attempt_at <= now() AND (j.leased_until IS NULL OR j.leased_until < now())
                   ORDER BY j.next_attempt_at
                   LIMIT turns.room
                     FOR UPDATE SKIP LOCKED) AS job
                LIMIT $7
             ), claimed AS (
               UPDATE {table} AS j
                  SET is_ready = false, lease_token = $8, leased_until = now() + $9::interval,
                      attempt_count = LEAST(j.attempt_count + 1, $10)
                WHERE j.id = ANY (ARRAY(SELECT due.id FROM due))
               RETURNING j.*
             ), ended AS (
               SELECT due.rank, due.place FROM due
                WHERE (SELECT count(*) FROM due) >= $7 ORDER BY due.rank DESC, due.place DESC LIMIT 1
             ), examined AS (
               SELECT DISTINCT ON (ranked.place) ranked.place, ranked.key
                 FROM ranked LEFT JOIN ended ON true
                WHERE ended.rank IS NULL OR (ranked.rank, ranked.place) <= (ended.rank, ended.place)
                ORDER BY ranked.place, ranked.turn DESC
             ), longer AS (
               SELECT DISTINCT keys.place FROM keys WHERE keys.turn > (SELECT most.turns FROM most)
             )
             SELECT claimed.*, due.attempt_count >= $10 AS claim_is_spent, companies.company AS claim_company,
                    companies.place AS claim_place, examined.key AS claim_key, longer.place IS NOT NULL AS claim_has_more
               FROM companies LEFT JOIN examined ON examined.place = companies.place
               LEFT JOIN longer ON longer.place = companies.place
               LEFT JOIN (claimed JOIN due ON due.id = claimed.id) ON due.place = companies.place
              ORDER BY due.rank, companies.place, due.next_attempt_at"
        )
    }

    /// The keys that a claim examines and their ranks: `companies` in turn, and `ranked` keys of those that are not full.
    fn walk_sql(&self) -> String {
        let Self { key, company, .. } = self;
        let (start, following) =
            (self.next_sql(company, "", "$2"), self.next_sql(company, "", "companies.company"));
        let start_key = self.next_sql(key, &format!("AND j.{company} = open.company"), "open.after");
        let following_key = self.next_sql(key, &format!("AND j.{company} = keys.company"), "keys.key");
        // `OFFSET 0` keeps the planner from evaluating the next value once per use.
        // Each step of `keys` adds one key of each company; the step past the limit tells whether there are more. A key
        // that may start no job takes no turn: it has the rank of the one before it.
        format!(
            "companies(company, first, place) AS (
               SELECT start.company, start.company, 1::bigint
                 FROM (SELECT {start} AS company OFFSET 0) AS start WHERE start.company IS NOT NULL
                UNION ALL
               SELECT following.company, companies.first, companies.place + 1
                 FROM companies CROSS JOIN LATERAL (SELECT {following} AS company OFFSET 0) AS following
                WHERE companies.place < $3 AND following.company <> companies.first
             ), open AS MATERIALIZED (
               SELECT companies.company, companies.place, last.key AS after
                 FROM companies LEFT JOIN unnest($12::uuid[], $13::uuid[]) AS last(company, key)
                   ON last.company = companies.company
                WHERE companies.company <> ALL($11::uuid[])
             ), most AS MATERIALIZED (
               SELECT GREATEST($3 / GREATEST(count(*), 1), 1) AS turns FROM open
             ), keys(company, place, key, first, turn) AS (
               SELECT open.company, open.place, start.key, start.key, 1::bigint
                 FROM open CROSS JOIN LATERAL (SELECT {start_key} AS key OFFSET 0) AS start WHERE start.key IS NOT NULL
                UNION ALL
               SELECT keys.company, keys.place, following.key, keys.first, keys.turn + 1
                 FROM keys CROSS JOIN LATERAL (SELECT {following_key} AS key OFFSET 0) AS following
                WHERE keys.turn <= (SELECT most.turns FROM most) AND following.key <> keys.first
             ), ranked AS MATERIALIZED (
               SELECT keys.company, keys.place, keys.key, keys.turn, $6::bigint - COALESCE(busy.jobs, 0) AS room,
                      count(*) FILTER (WHERE $6::bigint > COALESCE(busy.jobs, 0))
                        OVER (PARTITION BY keys.place ORDER BY keys.turn) AS rank
                 FROM keys LEFT JOIN unnest($4::uuid[], $5::bigint[]) AS busy(key, jobs) ON busy.key = keys.key
                WHERE keys.turn <= (SELECT most.turns FROM most)
             )"
        )
    }

    /// The first value of a column in ready jobs after a given value, or the first of all: one index read each.
    fn next_sql(&self, column: &str, of: &str, after: &str) -> String {
        let table = self.table;
        let first = |and: &str| {
            format!(
                "(SELECT j.{column} FROM {table} j WHERE j.claim_group = $1 AND j.is_ready AND j.state = 'pending' \
                 {of} {and} ORDER BY j.{column} LIMIT 1)"
            )
        };
        format!("COALESCE({}, {})", first(&format!("AND j.{column} > {after}")), first(""))
    }

    /// Reads the rows: none when no company has ready jobs; otherwise one per job, and one for each other company that
    /// was examined. The jobs come first, in the order of their turns.
    fn claimed<J>(&self, rows: &[PgRow], token: Uuid, ask: Ask) -> sqlx::Result<Claimed<J>>
    where
        J: for<'r> FromRow<'r, PgRow>,
    {
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
        let mut position = ask.position;
        let (mut examined, mut last, mut last_place, mut has_longer) = (BTreeSet::new(), None, 0, false);
        for row in rows {
            let (company, place): (Uuid, i64) = (row.try_get("claim_company")?, row.try_get("claim_place")?);
            examined.insert(company);
            if place > last_place {
                (last, last_place) = (Some(company), place);
            }
            let has_more: bool = row.try_get("claim_has_more")?;
            match row.try_get("claim_key")? {
                Some(key) if is_full || has_more => position.remember(company, key),
                // Its turn did not come.
                None if is_full || ask.full.contains(&company) => {}
                _ => drop(position.keys.remove(&company)),
            }
            has_longer |= has_more;
        }
        let is_all = last_place < ask.look;
        position.forget_all_but(&examined, last.unwrap_or_default(), is_all);
        position.company = if is_full { jobs.last().map(|job| job.lease.company) } else { last };
        let is_partial = !is_full && (has_longer || !is_all);
        Ok(Claimed { jobs, position, is_partial })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn company(number: usize) -> Uuid {
        Uuid::from_u128(u128::try_from(number).expect("small"))
    }

    fn of(last: usize, companies: &[usize]) -> Position {
        let keys = companies.iter().map(|number| (company(*number), Uuid::nil())).collect();
        Position { company: Some(company(last)), keys }
    }

    #[test]
    fn the_last_keys_of_a_bounded_number_of_companies_are_remembered() {
        let mut position = Position::default();
        for number in 0..=MAX_COMPANIES {
            position.remember(company(number), Uuid::nil());
        }
        position.remember(company(0), Uuid::max());
        assert_eq!((position.keys.len(), position.keys[&company(0)]), (MAX_COMPANIES, Uuid::max()));
    }

    #[test]
    fn a_claim_is_told_of_the_companies_whose_turns_are_next() {
        let next = |last, most| {
            let position = of(last, &[1, 3, 5, 7]);
            position.next(most).map(|(company, _)| company.as_u128()).collect::<Vec<_>>()
        };
        assert_eq!((next(3, 2), next(3, 3), next(9, 9)), (vec![5, 7], vec![5, 7, 1], vec![1, 3, 5, 7]));
    }

    #[test]
    fn companies_that_were_passed_for_want_of_ready_jobs_are_forgotten() {
        let left = |last, examined: &[usize], is_all| {
            let mut position = of(last, &[1, 3, 5, 7, 9]);
            let set = examined.iter().map(|number| company(*number)).collect();
            position.forget_all_but(&set, company(examined[examined.len() - 1]), is_all);
            position.keys.keys().map(Uuid::as_u128).collect::<Vec<_>>()
        };
        assert_eq!(left(2, &[4, 5, 8], false), [1, 5, 9], "3 and 7 have none");
        assert_eq!(left(6, &[8, 9, 2], false), [3, 5, 9], "7 and 1, in the next round");
        assert_eq!(left(6, &[9, 3], true), [3, 9], "no other company has any");
    }
}
