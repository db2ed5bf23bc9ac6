//! Exchanges the tuples that a row stands for while the row lives. As everywhere, one operation at a time works on the
//! row, the same request resumes it after a crash, and a refused first attempt is undone.

use contract::grants::{Op, Tuple};
use uuid::Uuid;

use super::lock::{self, Locked, RowState};
use super::{
    Exchange, Next, ROUNDS, TupleRow, TwoStore, changes, is_pending_but_removable, not_found, to_the_end,
};
use crate::clients::grants::GrantRefused;
use crate::contention::retried;
use crate::{ApiError, AuditedTx, CompanyCall};

/// Where the first phase of an exchange ended.
enum Begun<R> {
    /// With the transaction to commit if this call began it.
    UnderWay(Option<Box<AuditedTx>>),
    /// The row already stands for the new tuples.
    Done(R),
}

impl TwoStore {
    /// Makes an `active` row stand for other tuples, and returns it as it is afterwards.
    ///
    /// # Errors
    /// 404 for a missing or `pending` row; 409 `CONFLICT` while the row is being removed or changed otherwise, when it is
    /// `pending` but can be removed ([`TupleRow::PENDING_MAY_BE_REMOVED`]), or when others change it for longer than the
    /// lock timeout; those of [`Exchange::begin`]; 403 and 422 when authz refuses; 503 when authz does not answer, after
    /// which the same request resumes.
    pub async fn exchange<E: Exchange>(
        &self,
        call: &CompanyCall,
        id: Uuid,
        change: &E,
    ) -> Result<E::Row, ApiError> {
        for _ in 0..ROUNDS {
            let begun = match retried(|| Box::pin(self.begin_exchange(call, id, change))).await? {
                Begun::UnderWay(begun) => begun,
                Begun::Done(row) => return Ok(row),
            };
            if let Some(row) = self.swapped(call, id, change, begun).await? {
                return Ok(row);
            }
        }
        Err(changes())
    }

    /// Moves the row from `active` to `exchanging`, once; resumes a row that is already on its way to the same tuples.
    async fn begin_exchange<E: Exchange>(
        &self,
        call: &CompanyCall,
        id: Uuid,
        change: &E,
    ) -> Result<Begun<E::Row>, ApiError> {
        let mut tx = self.core.begin(&call.caller.subject, &call.correlation).await?;
        let moved =
            lock::leave_active::<E::Row>(&mut tx, call.company, id, E::Row::STATES.exchanging).await?;
        let row = E::Row::find(tx.conn(), call.company, id).await?.ok_or_else(not_found::<E::Row>)?;
        if moved {
            if change.begin(&row, &mut tx).await? {
                return Ok(Begun::UnderWay(Some(Box::new(tx))));
            }
            tx.unchanged().await?;
            return Ok(Begun::Done(row));
        }
        let state = lock::state::<E::Row>(tx.conn(), call.company, id).await?;
        tx.unchanged().await?;
        match state {
            Some(RowState::Exchanging { .. }) if change.is_under_way(&row) => Ok(Begun::UnderWay(None)),
            Some(RowState::Exchanging { .. } | RowState::Revoking { .. }) => Err(changes()),
            // Another request has settled the row since; the next round handles it.
            Some(RowState::Active) => Ok(Begun::UnderWay(None)),
            Some(state) if is_pending_but_removable::<E::Row>(state) => Err(changes()),
            Some(RowState::Pending { .. }) | None => Err(not_found::<E::Row>()),
        }
    }

    /// Commits the first phase and runs [`Self::swap`] to its end.
    async fn swapped<E: Exchange>(
        &self,
        call: &CompanyCall,
        id: Uuid,
        change: &E,
        begun: Option<Box<AuditedTx>>,
    ) -> Result<Option<E::Row>, ApiError> {
        let (store, call, change, is_begun) = (self.clone(), call.clone(), change.clone(), begun.is_some());
        let phase = async move { retried(|| Box::pin(store.swap(&call, id, &change, is_begun))).await };
        to_the_end(begun, phase).await
    }

    /// Changes the tuples, then the row. `None` when another request settled the row or began another change of it. A
    /// refusal makes it `active` as it was only if this call began the exchange.
    async fn swap<E: Exchange>(
        &self,
        call: &CompanyCall,
        id: Uuid,
        change: &E,
        is_begun: bool,
    ) -> Result<Option<E::Row>, ApiError> {
        let mut locked =
            Locked::take_for_exchange::<E::Row>(&self.core, call.subject.as_str(), call.company, id).await?;
        let (row, state) = match locked.read::<E::Row>().await? {
            Some((row, state @ RowState::Exchanging { .. })) => (row, state),
            Some((_, RowState::Active)) => return Ok(None),
            Some((_, RowState::Revoking { .. })) => return Err(changes()),
            Some((_, RowState::Pending { .. })) | None => return Err(not_found::<E::Row>()),
        };
        if !change.is_under_way(&row) {
            return Ok(None);
        }
        let by = row.exchanged_by().unwrap_or_else(|| call.caller.subject.as_str()).to_owned();
        let next = row.next().ok_or_else(|| ApiError::internal("an exchange without new tuples"))?;
        let [(first, one), (second, other)] = steps(&row, next);
        let asked = match self.still_allowed(call).await {
            Ok(()) => {
                locked.count_attempt::<E::Row>().await?;
                ask(&mut locked, self, call, first, &one).await
            }
            Err(outage @ ApiError::Unavailable { .. }) => return Err(outage),
            Err(refused) => Err(GrantRefused::Refused(refused)),
        };
        match asked {
            Ok(()) => {}
            Err(GrantRefused::Refused(why)) if is_begun && state.is_untried() => {
                let mut tx = locked.begin(&self.core, call, &row).await?;
                lock::activate::<E::Row>(&mut tx, call.company, id, E::Row::STATES.exchanging).await?;
                row.not_exchanged(&mut tx).await?;
                tx.commit_phase().await?;
                return Err(why);
            }
            Err(refused) => return Err(refused.into()),
        }
        ask(&mut locked, self, call, second, &other).await?;
        let mut tx = locked.begin_as(&self.core, &by, Some(call.correlation.as_str()), &row).await?;
        lock::activate::<E::Row>(&mut tx, call.company, id, E::Row::STATES.exchanging).await?;
        let event = row.exchanged(&mut tx).await?;
        let settled = E::Row::find(tx.conn(), call.company, id).await?.ok_or_else(not_found::<E::Row>)?;
        tx.commit(&event).await?;
        Ok(Some(settled))
    }
}

async fn ask(
    locked: &mut Locked,
    store: &TwoStore,
    call: &CompanyCall,
    op: Op,
    tuples: &[Tuple],
) -> Result<(), GrantRefused> {
    if tuples.is_empty() {
        return Ok(());
    }
    locked.ask(&store.authz, call, op, tuples).await.map(drop)
}

/// The grant and the revocation to ask of authz, in order.
fn steps<R: TupleRow>(row: &R, next: Next) -> [(Op, Vec<Tuple>); 2] {
    let old = row.removed_tuples().into_iter().filter(|tuple| !next.tuples.contains(tuple)).collect();
    if next.gains {
        [(Op::Grant, next.tuples), (Op::Revoke, old)]
    } else {
        [(Op::Revoke, old), (Op::Grant, next.tuples)]
    }
}
