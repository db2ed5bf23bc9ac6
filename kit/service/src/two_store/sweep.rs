//! Settles rows that a crash left between two states and that no request resumed. The sweep has no bearer, so it grants
//! no tuple and removes only those of a row that must go: it asks authz which tuples exist and makes the row agree.
//!
//! | row | tuples exist | no tuple exists |
//! |---|---|---|
//! | `pending` | `active`, with its audit row | deleted |
//! | `pending`, authz never asked | | deleted, without asking |
//! | `revoking` | as [`TupleRow::broken_off`] says: `active` again; or the tuples are removed and the row is deleted, after [`REVOKED_AFTER`] already; or left | deleted, with its audit row, after [`REVOKED_AFTER`] already |
//! | `exchanging` | the new ones, and of the old ones none or only those that the new ones cover: `active` for the new ones; only the old ones: `active` as it was, or left ([`TupleRow::EXCHANGE_IS_LEFT`]) | deleted, with its audit row |
//!
//! Where only some of a row's tuples exist, something else has changed them; the row is left for a repeat of its
//! request.

use std::time::Duration;

use contract::CorrelationId;
use contract::grants::Tuple;
use contract::id::CompanyId;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::lock::{self, Locked, RowState};
use super::{BrokenOff, TupleRow, TwoStore, data_of, finish_refused};
use crate::clients::grants::Taken;
use crate::{ApiError, AuditedTx, idempotency};

/// Age of an attempt before its row is swept: twice a bearer's lifetime (300 s), so authz no longer accepts a grant
/// that a suspended process has yet to send.
pub const STALE_AFTER: Duration = Duration::from_mins(10);
/// Age of a revocation attempt before a row whose tuples are gone is deleted. Shorter than [`STALE_AFTER`], because a
/// late attempt by a suspended process changes nothing; longer than authz works on one attempt, so that no request
/// finds its row deleted underneath it.
pub const REVOKED_AFTER: Duration = Duration::from_secs(30);
/// Pause between two sweeps: a row waits at most this long beyond [`STALE_AFTER`], and each sweep reads one partial
/// index.
pub const SWEEP_EVERY: Duration = Duration::from_mins(1);
/// Rows read at a time.
pub const SWEEP_BATCH: i64 = 100;
/// Actor of the audit rows.
const ACTOR: &str = "system:two-store-sweep";
/// Reason for removing tuples, for authz's audit row.
const REASON: &str = "REMOVAL_BROKE_OFF";

/// The result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Rows whose tuples exist, now `active`.
    pub kept: u64,
    /// Rows without tuples, now deleted.
    pub removed: u64,
    /// Rows that a request works on, that have only some of their tuples, or that cannot be written.
    pub left: u64,
}

/// Rows of one round that may be left for an outage: one row may take too long for the database by itself, several mean
/// that it is down.
const MAX_OUTAGES: usize = 3;

enum Verdict {
    Keep,
    Exchange,
    Remove,
    Leave,
}

/// How many of some tuples exist.
#[derive(Clone, Copy)]
enum Standing {
    All,
    Some,
    None,
}

/// How a round ended: an outage counts unless other rows were settled meanwhile.
fn ended(swept: Swept, mut outages: Vec<ApiError>) -> Result<Swept, ApiError> {
    let is_down = outages.len() >= MAX_OUTAGES || swept.kept + swept.removed == 0;
    match outages.pop().filter(|_| is_down) {
        Some(outage) => Err(outage),
        None => Ok(swept),
    }
}

impl TwoStore {
    /// Settles every row whose last attempt is older than `stale_after` ([`STALE_AFTER`] outside of tests).
    ///
    /// # Errors
    /// authz or the database is unavailable for all rows, or for [`MAX_OUTAGES`]; the next round handles the rest.
    pub async fn sweep<R: TupleRow>(&self, stale_after: Duration) -> Result<Swept, ApiError> {
        let (mut swept, mut outages) = (Swept::default(), Vec::new());
        let mut after = Uuid::nil();
        loop {
            let rows = self.stale::<R>(stale_after, after).await?;
            for (company, id) in &rows {
                match self.settle::<R>(*company, *id, stale_after).await {
                    Ok(Verdict::Keep | Verdict::Exchange) => swept.kept += 1,
                    Ok(Verdict::Remove) => swept.removed += 1,
                    Ok(Verdict::Leave) => swept.left += 1,
                    Err(outage @ ApiError::Unavailable { .. }) => {
                        tracing::warn!(table = R::TABLE, %id, error = %outage, "cannot settle a row yet");
                        swept.left += 1;
                        outages.push(outage);
                    }
                    Err(error) => {
                        // An error in one row must not stop the others.
                        tracing::error!(table = R::TABLE, %id, %error, "cannot settle a row");
                        swept.left += 1;
                    }
                }
                after = *id;
                if outages.len() >= MAX_OUTAGES {
                    return ended(swept, outages);
                }
            }
            if i64::try_from(rows.len()).unwrap_or(SWEEP_BATCH) < SWEEP_BATCH {
                return ended(swept, outages);
            }
        }
    }

    /// Settles a `pending` row whose grant authz was asked for without a known outcome, as the sweep would later. Does nothing
    /// if the row is in another state, if another request is working on it, or if only some of its tuples exist.
    ///
    /// # Errors
    /// 503 when authz or the database does not answer.
    pub async fn settle_pending<R: TupleRow>(&self, company: CompanyId, id: Uuid) -> Result<(), ApiError> {
        let Some(mut locked) = Locked::try_take::<R>(&self.core, ACTOR, company, id).await? else {
            return Ok(());
        };
        match locked.read::<R>().await? {
            Some((row, state @ RowState::Pending { .. })) => {
                let verdict = self.verdict(&row, state).await?;
                self.conclude(locked, &row, &verdict, state, (company, id)).await
            }
            _ => Ok(()),
        }
    }

    async fn stale<R: TupleRow>(
        &self,
        stale_after: Duration,
        after: Uuid,
    ) -> Result<Vec<(CompanyId, Uuid)>, ApiError> {
        // As in `lock::text`. Not `IN ($1, $2)`: the planner must match the literals to those of the table's partial
        // index.
        let sql = format!(
            "SELECT company_id, id FROM {} WHERE state IN ('{}', '{}', '{}') \
               AND attempted_at <= now() - make_interval(secs => CASE state WHEN '{}' THEN $4 ELSE $1 END) \
               AND id > $2 ORDER BY id LIMIT $3",
            R::TABLE,
            R::STATES.pending,
            R::STATES.revoking,
            R::STATES.exchanging,
            R::STATES.revoking
        );
        let found: Vec<(Uuid, Uuid)> = sqlx::query_as(AssertSqlSafe(sql))
            .bind(stale_after.as_secs_f64())
            .bind(after)
            .bind(SWEEP_BATCH)
            .bind(stale_after.min(REVOKED_AFTER).as_secs_f64())
            .fetch_all(&self.core.pool)
            .await?;
        Ok(found.into_iter().map(|(company, id)| (CompanyId::from(company), id)).collect())
    }

    async fn settle<R: TupleRow>(
        &self,
        company: CompanyId,
        id: Uuid,
        stale_after: Duration,
    ) -> Result<Verdict, ApiError> {
        let Some(mut locked) = Locked::try_take::<R>(&self.core, ACTOR, company, id).await? else {
            return Ok(Verdict::Leave);
        };
        let Some((row, state)) = locked.read::<R>().await? else { return Ok(Verdict::Leave) };
        if matches!(state, RowState::Active) {
            return Ok(Verdict::Leave);
        }
        let mut verdict = self.verdict(&row, state).await?;
        if matches!((&verdict, state), (Verdict::Keep, RowState::Revoking { .. })) {
            match row.broken_off() {
                BrokenOff::Finished => {
                    self.take_what_must_go(&mut locked, &row, company).await?;
                    verdict = Verdict::Remove;
                }
                BrokenOff::GivenUp if locked.is_stale::<R>(stale_after).await? => {}
                BrokenOff::GivenUp | BrokenOff::Left => return Ok(Verdict::Leave),
            }
        }
        let is_exchange = matches!(state, RowState::Exchanging { .. });
        if R::EXCHANGE_IS_LEFT && is_exchange && matches!(verdict, Verdict::Keep) {
            return Ok(Verdict::Leave);
        }
        self.conclude(locked, &row, &verdict, state, (company, id)).await?;
        Ok(verdict)
    }

    /// Writes what became of the row, in the name of who began the change.
    async fn conclude<R: TupleRow>(
        &self,
        locked: Locked,
        row: &R,
        verdict: &Verdict,
        state: RowState,
        (company, id): (CompanyId, Uuid),
    ) -> Result<(), ApiError> {
        if matches!(verdict, Verdict::Leave) {
            tracing::warn!(table = R::TABLE, %id, "only some of a row's tuples exist; leaving the row unchanged");
            return Ok(());
        }
        let begun_by = match state {
            RowState::Revoking { .. } => row.removed_by(),
            RowState::Exchanging { .. } => row.exchanged_by(),
            RowState::Pending { .. } | RowState::Active => None,
        };
        let actor = begun_by.unwrap_or(ACTOR);
        let tx = locked.begin_as(&self.core, actor, None, row).await?;
        carry_out(tx, row, verdict, state, (company, id)).await
    }

    /// Removes the tuples of a row that must go, for any caller, by the services' credential.
    async fn take_what_must_go<R: TupleRow>(
        &self,
        locked: &mut Locked,
        row: &R,
        company: CompanyId,
    ) -> Result<(), ApiError> {
        let correlation = CorrelationId::generate();
        let taken = Taken { module: self.core.name, company, reason: REASON, correlation: &correlation };
        locked.count_attempt::<R>().await?;
        locked.take_tuples(&self.authz, &taken, &row.removed_tuples()).await?;
        Ok(())
    }

    async fn verdict<R: TupleRow>(&self, row: &R, state: RowState) -> Result<Verdict, ApiError> {
        // authz was never asked, so an existing tuple does not belong to this row.
        if matches!(state, RowState::Pending { attempts: 0 }) {
            return Ok(Verdict::Remove);
        }
        let standing = self.stand(row.tuples()).await?;
        let next = match state {
            RowState::Exchanging { .. } => row.next(),
            RowState::Pending { .. } | RowState::Active | RowState::Revoking { .. } => None,
        };
        let Some(next) = next else {
            return Ok(match standing {
                Standing::All => Verdict::Keep,
                Standing::None => Verdict::Remove,
                Standing::Some => Verdict::Leave,
            });
        };
        Ok(match (standing, self.stand(next.tuples).await?) {
            (Standing::None, Standing::All) => Verdict::Exchange,
            (Standing::All, Standing::All) if next.gains => Verdict::Exchange,
            (Standing::All, Standing::None) => Verdict::Keep,
            (Standing::None, Standing::None) => Verdict::Remove,
            _ => Verdict::Leave,
        })
    }

    async fn stand(&self, tuples: Vec<Tuple>) -> Result<Standing, ApiError> {
        let standing = self.authz.standing(&tuples, &CorrelationId::generate()).await?;
        Ok(match (standing.iter().all(|stands| *stands), standing.iter().any(|stands| *stands)) {
            (true, _) => Standing::All,
            (_, false) => Standing::None,
            (false, true) => Standing::Some,
        })
    }
}

/// Applies the verdict to the row, and commits.
async fn carry_out<R: TupleRow>(
    mut tx: AuditedTx,
    row: &R,
    verdict: &Verdict,
    state: RowState,
    (company, id): (CompanyId, Uuid),
) -> Result<(), ApiError> {
    let from = match state {
        RowState::Active => return tx.unchanged().await,
        RowState::Pending { .. } => R::STATES.pending,
        RowState::Revoking { .. } => R::STATES.revoking,
        RowState::Exchanging { .. } => R::STATES.exchanging,
    };
    match (verdict, state) {
        (Verdict::Exchange, _) => {
            lock::activate::<R>(&mut tx, company, id, from).await?;
            let event = row.exchanged(&mut tx).await?;
            tx.commit(&event).await?;
        }
        (Verdict::Keep, RowState::Pending { .. }) => {
            lock::activate::<R>(&mut tx, company, id, from).await?;
            let event = row.granted(&mut tx).await?;
            idempotency::store_for_row(&mut tx, company, id, data_of(row)?).await?;
            tx.commit(&event).await?;
        }
        (Verdict::Keep, RowState::Exchanging { .. }) => {
            lock::activate::<R>(&mut tx, company, id, from).await?;
            row.not_exchanged(&mut tx).await?;
            tx.commit_phase().await?;
        }
        (Verdict::Keep, _) => {
            lock::activate::<R>(&mut tx, company, id, from).await?;
            row.not_revoked(&mut tx).await?;
            tx.commit_phase().await?;
        }
        (_, RowState::Pending { .. }) => {
            lock::delete::<R>(&mut tx, company, id, from).await?;
            finish_refused(tx, row).await?;
        }
        (_, _) => {
            lock::delete::<R>(&mut tx, company, id, from).await?;
            let event = row.revoked(&mut tx).await?;
            tx.commit(&event).await?;
        }
    }
    Ok(())
}
