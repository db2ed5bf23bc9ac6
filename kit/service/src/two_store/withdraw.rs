//! Removes a row that must go for any caller, such as one whose member row org has linked to another login. It needs no
//! bearer: authz removes the tuples by the services' credential. The removal is never abandoned; each call resumes the
//! row where an earlier one left it.

use contract::CorrelationId;
use contract::id::CompanyId;
use uuid::Uuid;

use super::lock::{self, Locked, RowState};
use super::{ROUNDS, TupleRow, TwoStore, finish_refused, to_the_end};
use crate::clients::grants::{GrantRefused, Taken};
use crate::contention::retried;
use crate::{ApiError, AuditedTx};

/// A removal without a bearer.
#[derive(Clone, Copy, Debug)]
pub struct Withdrawal<'a> {
    /// The row's company.
    pub company: CompanyId,
    /// `system:<worker>`, the actor of the audit row.
    pub actor: &'static str,
    /// The reason, for authz's audit row.
    pub reason: &'static str,
    /// Correlation id of the request that found the row, or of the worker.
    pub correlation: &'a CorrelationId,
}

/// Where one attempt ended.
enum Ended {
    Gone,
    /// Another request made it `active` again.
    Again,
}

impl TwoStore {
    /// Removes a row with its tuples, which must be users' tuples, in any state; does nothing if the row is gone.
    ///
    /// # Errors
    /// Those of [`TupleRow::revoking`]; 503 when authz does not remove the tuples, for any reason, or when other
    /// requests change the row for longer than the lock timeout.
    pub async fn withdraw<R: TupleRow>(&self, id: Uuid, withdrawal: &Withdrawal<'_>) -> Result<(), ApiError> {
        for _ in 0..ROUNDS {
            let begun = retried(|| Box::pin(self.begin_withdrawal::<R>(id, withdrawal))).await?;
            match self.taken::<R>(id, withdrawal, begun).await? {
                Ended::Gone => return Ok(()),
                Ended::Again => {}
            }
        }
        Err(ApiError::unavailable("postgres"))
    }

    /// Moves the row from `active` to `revoking`, once, and returns the transaction.
    async fn begin_withdrawal<R: TupleRow>(
        &self,
        id: Uuid,
        withdrawal: &Withdrawal<'_>,
    ) -> Result<Option<Box<AuditedTx>>, ApiError> {
        let mut tx = self.begin_as(withdrawal).await?;
        let company = withdrawal.company;
        if !lock::leave_active::<R>(&mut tx, company, id, R::STATES.revoking).await? {
            tx.unchanged().await?;
            return Ok(None);
        }
        let row = R::find(tx.conn(), company, id).await?;
        let row = row.ok_or_else(|| ApiError::internal("a row that was just changed is missing"))?;
        row.revoking(&mut tx).await?;
        Ok(Some(Box::new(tx)))
    }

    /// Commits the first phase and runs [`Self::take`] to its end.
    async fn taken<R: TupleRow>(
        &self,
        id: Uuid,
        withdrawal: &Withdrawal<'_>,
        begun: Option<Box<AuditedTx>>,
    ) -> Result<Ended, ApiError> {
        let Withdrawal { company, actor, reason, correlation } = *withdrawal;
        let (store, correlation) = (self.clone(), correlation.clone());
        let phase = async move {
            let withdrawal = Withdrawal { company, actor, reason, correlation: &correlation };
            retried(|| Box::pin(store.take::<R>(id, &withdrawal))).await
        };
        to_the_end(begun, phase).await
    }

    /// Removes the tuples, then the row.
    async fn take<R: TupleRow>(&self, id: Uuid, withdrawal: &Withdrawal<'_>) -> Result<Ended, ApiError> {
        let Withdrawal { company, actor, reason, correlation } = *withdrawal;
        let mut locked = Locked::take::<R>(&self.core, &company.to_string(), company, id).await?;
        let (row, state) = match locked.read::<R>().await? {
            None => return Ok(Ended::Gone),
            Some((_, RowState::Active)) => return Ok(Ended::Again),
            // This does not wait for the exchange: the caller tries again.
            Some((_, RowState::Exchanging { .. })) => return Err(ApiError::unavailable("postgres")),
            Some((row, state @ (RowState::Pending { .. } | RowState::Revoking { .. }))) => (row, state),
        };
        locked.count_attempt::<R>().await?;
        let taken = Taken { module: self.core.name, company, reason, correlation };
        locked.take_tuples(&self.authz, &taken, &row.removed_tuples()).await.map_err(not_taken)?;
        let mut tx = locked.begin_as(&self.core, actor, Some(correlation.as_str()), &row).await?;
        if matches!(state, RowState::Pending { .. }) {
            lock::delete::<R>(&mut tx, company, id, R::STATES.pending).await?;
            finish_refused(tx, &row).await?;
            return Ok(Ended::Gone);
        }
        lock::delete::<R>(&mut tx, company, id, R::STATES.revoking).await?;
        let event = row.revoked(&mut tx).await?;
        tx.commit(&event).await?;
        Ok(Ended::Gone)
    }

    async fn begin_as(&self, withdrawal: &Withdrawal<'_>) -> Result<AuditedTx, ApiError> {
        self.core.begin_as(withdrawal.actor, Some(withdrawal.correlation.as_str())).await
    }
}

/// Logs a refusal by authz and maps it to 503, because it does not answer what the caller asked.
fn not_taken(refused: GrantRefused) -> ApiError {
    match refused {
        GrantRefused::Unanswered(unavailable) => unavailable.into(),
        GrantRefused::Refused(why) => {
            tracing::error!(%why, "authz does not remove a tuple that must go");
            ApiError::unavailable("authz")
        }
    }
}
