//! A module's rows that stand for tuples in authz, such as a binding or a share. The two stores share no transaction,
//! and authz accepts a change of tuples only with the user's bearer, so each operation moves the row through states and
//! asks authz in between (`foundation.md` C11):
//!
//! ```text
//! insert -> pending  -> authz grants  -> active, audit row     (settled)
//! active -> revoking -> authz revokes -> deleted, audit row    (gone)
//! active -> exchanging -> authz grants and revokes -> active, audit row    (settled, for other tuples)
//! ```
//!
//! - **One at a time.** From reading the state to settling it, an operation holds the row's advisory lock, on the
//!   connection that also writes the row. A second request waits, then sees the first one's result. A process that dies
//!   loses the connection, and with it the lock, at once; a process that only lost the connection can no longer write
//!   the row.
//! - **Resumable.** After a crash at any point, or when authz did not answer, the same request resumes the row from its
//!   current state. Asking authz again changes nothing.
//! - **To the end.** The first phase is committed in a task of its own, which then runs the second one: a client that
//!   hangs up before the commit begins has changed nothing, and later it interrupts nothing.
//! - **Refused.** A refusal undoes the state, unless an earlier attempt may have changed the tuples already; then the
//!   row waits for a repeat of the request or for the sweep. A removal or an exchange is undone only by the call that
//!   started it, because the caller that resumes it may have no rights at all.
//! - **Swept.** [`TwoStore::sweep`] settles rows that no request resumed. It has no bearer, so it grants no tuple: it
//!   asks authz which tuples exist and updates the row to match.
//! - **Withdrawn.** [`TwoStore::withdraw`] removes a row that stands for outdated rights, for any caller and without a
//!   bearer.
//!
//! A table of such rows has, besides its own columns:
//!
//! ```sql
//! id uuid PRIMARY KEY, company_id uuid NOT NULL,
//! state text NOT NULL CHECK (state IN ('pending', 'active', 'revoking')),
//! attempts int NOT NULL DEFAULT 0, attempted_at timestamptz NOT NULL DEFAULT now()
//! CREATE INDEX … ON <table>(id) WHERE state <> 'active';                        -- for the sweep
//! ```
//!
//! `pending` rows grant nothing yet, and the tuples of `revoking` rows may be gone already: lists of accessible objects
//! exclude both.
//! `exchanging` ([`Exchange`]) is a state of tables whose rows can change their tuples: a share whose role changes.

mod exchange;
mod lock;
mod sweep;
mod withdraw;

use std::fmt::Display;

use contract::grants::{Op, Tuple};
use contract::id::CompanyId;
use futures_util::future::BoxFuture;
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use sqlx::PgConnection;
use telemetry::Scope;
use uuid::Uuid;

use self::lock::{Locked, RowState};
use crate::clients::authz::AuthzClient;
use crate::clients::grants::GrantRefused;
use crate::contention::{retried, watched};
use crate::idempotency::{self, Attempt, Claim, Once, Replay};
use crate::{ApiError, AuditEvent, AuditedTx, CompanyCall, Core, Created, Feature, Permits};

pub use withdraw::Withdrawal;

pub use sweep::{REVOKED_AFTER, STALE_AFTER, SWEEP_BATCH, SWEEP_EVERY, Swept};

/// How often an operation starts over because another one settled its row first; each round sees a later state.
const ROUNDS: usize = 3;

/// The values of a table's `state` column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct States {
    /// The row exists, its tuples may not.
    pub pending: &'static str,
    /// Row and tuples agree.
    pub active: &'static str,
    /// The row is being removed, its tuples may be gone.
    pub revoking: &'static str,
    /// The row is changing its tuples; a table without [`Exchange`] never holds this state.
    pub exchanging: &'static str,
}

impl States {
    /// The states of bindings and shares.
    pub const USUAL: Self =
        Self { pending: "pending", active: "active", revoking: "revoking", exchanging: "exchanging" };
}

/// A module's row that stands for tuples. The driver moves the state and deletes the row; the module writes dependent
/// data, such as a counter, in the same transaction.
pub trait TupleRow: Sized + Send + Sync + 'static {
    /// Schema and table, such as `helpdesk.bindings`.
    const TABLE: &'static str;
    /// The noun in error messages, such as `binding`.
    const NOUN: &'static str;
    /// The values of its state column.
    const STATES: States = States::USUAL;
    /// `data` of the operation that creates the row.
    type Shown: Serialize + Send;

    /// Reads the row in any state.
    fn find(
        conn: &mut PgConnection,
        company: CompanyId,
        id: Uuid,
    ) -> impl Future<Output = Result<Option<Self>, ApiError>> + Send;

    /// The row's tuples, constant for its lifetime except for an [`Exchange`].
    fn tuples(&self) -> Vec<Tuple>;

    /// The tuples to remove with the row: at least [`Self::tuples`], and more where an interrupted exchange may have
    /// left others.
    fn removed_tuples(&self) -> Vec<Tuple> {
        self.tuples()
    }

    /// The tuples that an `exchanging` row changes to.
    fn next(&self) -> Option<Next> {
        None
    }

    /// Whether a `pending` row that authz was asked about can be removed like an `active` one: its tuples may exist, so
    /// callers must be able to revoke them. The removal waits for a request that is working on the row.
    const PENDING_MAY_BE_REMOVED: bool = false;

    /// What the sweep does with an interrupted removal whose tuples still exist.
    fn broken_off(&self) -> BrokenOff {
        BrokenOff::GivenUp
    }

    /// Whether the sweep leaves an interrupted exchange of which only the old tuples exist until a request with a bearer
    /// finishes it; otherwise it makes the row `active` as it was.
    const EXCHANGE_IS_LEFT: bool = false;

    /// The subject that started the exchange, as [`Self::removed_by`].
    fn exchanged_by(&self) -> Option<&str> {
        None
    }

    /// The subject that started the removal, for tables that store it. It is the actor of the audit row even if another
    /// request or the sweep completes the removal.
    fn removed_by(&self) -> Option<&str> {
        None
    }

    /// `data` of the response that creates the row.
    fn shown(&self) -> Self::Shown;

    /// Called first in the transaction that settles the row: takes the locks that [`NewRow::insert`] takes before it
    /// writes the row, so that both take them in the same order.
    fn lock(&self, _tx: &mut AuditedTx) -> impl Future<Output = Result<(), ApiError>> + Send {
        async { Ok(()) }
    }

    /// Called when the tuples exist and the row is `active`; returns the audit row.
    fn granted(&self, tx: &mut AuditedTx) -> impl Future<Output = Result<AuditEvent, ApiError>> + Send;

    /// Called when the tuples were never granted and the row is deleted; returns an audit row if one is needed.
    fn not_granted(
        &self,
        _tx: &mut AuditedTx,
    ) -> impl Future<Output = Result<Option<AuditEvent>, ApiError>> + Send {
        async { Ok(None) }
    }

    /// Called when the row becomes `revoking`; a refusal leaves it `active`.
    fn revoking(&self, _tx: &mut AuditedTx) -> impl Future<Output = Result<(), ApiError>> + Send {
        async { Ok(()) }
    }

    /// As [`Self::revoking`], for a row that was never confirmed, so that nothing counts it.
    fn rejecting(&self, _tx: &mut AuditedTx) -> impl Future<Output = Result<(), ApiError>> + Send {
        async { Ok(()) }
    }

    /// Called when the tuples and the row are gone; returns the audit row.
    fn revoked(&self, tx: &mut AuditedTx) -> impl Future<Output = Result<AuditEvent, ApiError>> + Send;

    /// Called when the tuples still exist and the row is `active` again; reverts what [`Self::revoking`] wrote.
    fn not_revoked(&self, _tx: &mut AuditedTx) -> impl Future<Output = Result<(), ApiError>> + Send {
        async { Ok(()) }
    }

    /// Called when the tuples of [`Self::next`] exist and the row is `active` again; writes them to the row and returns
    /// the audit row.
    fn exchanged(&self, _tx: &mut AuditedTx) -> impl Future<Output = Result<AuditEvent, ApiError>> + Send {
        async { Err(ApiError::internal("this row does not support exchanging its tuples")) }
    }

    /// Called when the old tuples still exist and the row is `active` again; reverts what [`Exchange::begin`] wrote.
    fn not_exchanged(&self, _tx: &mut AuditedTx) -> impl Future<Output = Result<(), ApiError>> + Send {
        async { Ok(()) }
    }
}

/// What becomes of an interrupted removal whose tuples still exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenOff {
    /// The sweep makes the row `active` again.
    GivenUp,
    /// The sweep removes the tuples by the services' credential, and then the row. They must be users' tuples.
    Finished,
    /// The row stays `revoking` until a request with a bearer finishes the removal.
    Left,
}

/// The tuples that an `exchanging` row changes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The tuples.
    pub tuples: Vec<Tuple>,
    /// True when the new tuples grant at least what the old ones did: they are granted before the old ones are revoked,
    /// so that no access is lost in between. Otherwise the old ones are revoked first, so that no subject ever holds
    /// both.
    pub gains: bool,
}

/// A change of an `active` row's tuples.
pub trait Exchange: Clone + Send + Sync + 'static {
    /// The row's type.
    type Row: TupleRow;

    /// Writes the new tuples to the row ([`TupleRow::next`]), or refuses; `false` when the row already has them.
    fn begin(
        &self,
        row: &Self::Row,
        tx: &mut AuditedTx,
    ) -> impl Future<Output = Result<bool, ApiError>> + Send;

    /// Whether the row is already changing to these tuples.
    fn is_under_way(&self, row: &Self::Row) -> bool;
}

/// A row to create.
pub trait NewRow: Sync {
    /// The row's type.
    type Row: TupleRow;

    /// Inserts a `pending` row and returns its id. Returns the id of an existing `pending` row for the same principal,
    /// and refuses if there is any other row for it. Called again when another request settles or removes the row
    /// meanwhile.
    fn insert(&self, tx: &mut AuditedTx) -> impl Future<Output = Result<Uuid, ApiError>> + Send;
}

/// A precondition for removing a row, beyond the row's own ([`TupleRow::revoking`]). It runs after the row is read, in
/// the transaction that makes the row `revoking`; a refusal leaves the row `active`.
pub trait Guard<R>: Sync {
    /// Refuses or permits the removal.
    fn admit(&self, row: &R, tx: &mut AuditedTx) -> impl Future<Output = Result<(), ApiError>> + Send;
}

/// Permits every removal.
struct Unguarded;

impl<R: Sync> Guard<R> for Unguarded {
    async fn admit(&self, _row: &R, _tx: &mut AuditedTx) -> Result<(), ApiError> {
        Ok(())
    }
}

/// Drives rows and their tuples. Cheap to clone.
#[derive(Clone)]
pub struct TwoStore {
    core: Core,
    authz: AuthzClient,
    allowed: Option<Allowed>,
}

/// A right of the caller.
#[derive(Clone)]
struct Allowed {
    permits: Permits,
    feature: Feature,
    object_id: String,
}

/// The result of a grant, once the row is locked.
#[derive(Debug)]
enum Granted<R> {
    /// This request settled the row.
    Now(R),
    /// Another request settled the row.
    Before(R),
    /// The row is gone.
    Gone,
}

/// Where the first phase of a create ended.
enum Begun {
    /// The row, and the transaction to commit if this call wrote to it.
    Row(Uuid, Option<Box<AuditedTx>>),
    Answered(Replay),
}

impl TwoStore {
    /// Drives the rows of one module.
    #[must_use]
    pub const fn new(core: Core, authz: AuthzClient) -> Self {
        Self { core, authz, allowed: None }
    }

    /// Creates, exchanges and removes rows only while the caller has this right: authz is asked once more when all waiting is
    /// over, just before the first tuple changes. A call may have waited since its decision, for rows, connections or its turn,
    /// and a tuple stays.
    #[must_use]
    pub fn while_allowed(self, permits: Permits, feature: Feature, object_id: impl Display) -> Self {
        Self { allowed: Some(Allowed { permits, feature, object_id: object_id.to_string() }), ..self }
    }

    /// Asks for the right of [`Self::while_allowed`].
    async fn still_allowed(&self, call: &CompanyCall) -> Result<(), ApiError> {
        let Some(Allowed { permits, feature, object_id }) = &self.allowed else { return Ok(()) };
        permits.ask_object(call, feature, object_id).await.map(drop)
    }

    /// Creates a row with its tuples. With an attempt, the operation is idempotent in two phases.
    ///
    /// # Errors
    /// Those of [`NewRow::insert`]; 403 and 422 when authz refuses; 503 when authz does not answer, or when another
    /// request works on the row for longer than the lock timeout: then the same request resumes.
    pub async fn create<N: NewRow>(
        &self,
        call: &CompanyCall,
        attempt: Option<&Attempt>,
        new: &N,
    ) -> Result<Once<<N::Row as TupleRow>::Shown>, ApiError> {
        for _ in 0..ROUNDS {
            let (id, begun) = match retried(|| Box::pin(self.begin(call, attempt, new))).await? {
                Begun::Row(id, begun) => (id, begun),
                Begun::Answered(replay) => return Ok(Once::Again(replay)),
            };
            match (self.granted::<N::Row>(call, id, attempt, begun).await?, attempt) {
                (Granted::Now(row), _) => return Ok(Once::First(Created(row.shown()))),
                (Granted::Before(row), Some(attempt)) => return self.answer(call, attempt, id, &row).await,
                (Granted::Before(_), None) | (Granted::Gone, _) => {}
            }
        }
        Err(ApiError::unavailable("postgres"))
    }

    /// Removes a row with its tuples, and returns the row as it was.
    ///
    /// # Errors
    /// 404 for a missing or `pending` row, except as [`TupleRow::PENDING_MAY_BE_REMOVED`] says; those of
    /// [`TupleRow::revoking`] and [`Self::create`].
    pub async fn remove<R: TupleRow>(&self, call: &CompanyCall, id: Uuid) -> Result<R, ApiError> {
        self.remove_guarded(call, id, &Unguarded).await
    }

    /// Removes a row if `guard` permits it. A `revoking` row is resumed without asking the guard again.
    ///
    /// # Errors
    /// Those of [`Guard::admit`] and [`Self::remove`].
    pub async fn remove_guarded<R: TupleRow>(
        &self,
        call: &CompanyCall,
        id: Uuid,
        guard: &impl Guard<R>,
    ) -> Result<R, ApiError> {
        for _ in 0..ROUNDS {
            let begun = retried(|| Box::pin(self.begin_removal::<R>(call, id, guard))).await?;
            if let Some(row) = self.revoked::<R>(call, id, begun).await? {
                return Ok(row);
            }
        }
        Err(ApiError::unavailable("postgres"))
    }

    /// The first phase: writes the row together with the claim of the key.
    async fn begin<N: NewRow>(
        &self,
        call: &CompanyCall,
        attempt: Option<&Attempt>,
        new: &N,
    ) -> Result<Begun, ApiError> {
        let mut tx = self.core.begin(&call.caller.subject, &call.correlation).await?;
        let claim = match attempt {
            Some(attempt) => idempotency::claim(&mut tx, attempt).await?,
            None => Claim::Ours,
        };
        match claim {
            Claim::Done(replay) => {
                tx.unchanged().await?;
                return Ok(Begun::Answered(replay));
            }
            Claim::Resume(id) if N::Row::find(tx.conn(), call.company, id).await?.is_some() => {
                tx.unchanged().await?;
                return Ok(Begun::Row(id, None));
            }
            // The claim's row was never granted and is gone: nothing was done under this key.
            Claim::Resume(_) | Claim::Ours => {}
        }
        let id = new.insert(&mut tx).await?;
        if let Some(attempt) = attempt {
            idempotency::hold(&mut tx, attempt, id).await?;
        }
        Ok(Begun::Row(id, Some(Box::new(tx))))
    }

    /// Commits the first phase and runs [`Self::grant`] to its end.
    async fn granted<R: TupleRow>(
        &self,
        call: &CompanyCall,
        id: Uuid,
        attempt: Option<&Attempt>,
        begun: Option<Box<AuditedTx>>,
    ) -> Result<Granted<R>, ApiError> {
        let (store, call, attempt) = (self.clone(), call.clone(), attempt.cloned());
        let phase = async move { retried(|| Box::pin(store.grant::<R>(&call, id, attempt.as_ref()))).await };
        to_the_end(begun, phase).await
    }

    /// Commits the first phase and runs [`Self::revoke`] to its end.
    async fn revoked<R: TupleRow>(
        &self,
        call: &CompanyCall,
        id: Uuid,
        begun: Option<Box<AuditedTx>>,
    ) -> Result<Option<R>, ApiError> {
        let (store, call, is_begun) = (self.clone(), call.clone(), begun.is_some());
        let phase = async move { retried(|| Box::pin(store.revoke::<R>(&call, id, is_begun))).await };
        to_the_end(begun, phase).await
    }

    /// The second phase: changes the tuples, then commits the row, its audit row and the stored response together.
    async fn grant<R: TupleRow>(
        &self,
        call: &CompanyCall,
        id: Uuid,
        attempt: Option<&Attempt>,
    ) -> Result<Granted<R>, ApiError> {
        let mut locked = Locked::take::<R>(&self.core, call.subject.as_str(), call.company, id).await?;
        let (row, state) = match locked.read::<R>().await? {
            Some((row, RowState::Active | RowState::Exchanging { .. })) => return Ok(Granted::Before(row)),
            Some((_, RowState::Revoking { .. })) => {
                return Err(ApiError::conflict("it is being removed"));
            }
            Some((row, state @ RowState::Pending { .. })) => (row, state),
            None => return Ok(Granted::Gone),
        };
        let asked = match self.still_allowed(call).await {
            Ok(()) => {
                locked.count_attempt::<R>().await?;
                locked.ask(&self.authz, call, Op::Grant, &row.tuples()).await
            }
            Err(outage @ ApiError::Unavailable { .. }) => return Err(outage),
            Err(refused) => Err(GrantRefused::Refused(refused)),
        };
        let mut tx = match asked {
            Ok(_) => locked.begin(&self.core, call, &row).await?,
            Err(GrantRefused::Refused(why)) if state.is_untried() => {
                let mut tx = locked.begin(&self.core, call, &row).await?;
                lock::delete::<R>(&mut tx, call.company, id, R::STATES.pending).await?;
                if let Some(attempt) = attempt {
                    idempotency::release(&mut tx, attempt).await?;
                }
                finish_refused(tx, &row).await?;
                return Err(why);
            }
            Err(refused) => return Err(refused.into()),
        };
        lock::activate::<R>(&mut tx, call.company, id, R::STATES.pending).await?;
        let event = row.granted(&mut tx).await?;
        // Answers this request's own key, and the keys of requests whose second phase this one ran.
        idempotency::store_for_row(&mut tx, call.company, id, data_of(&row)?).await?;
        tx.commit(&event).await?;
        Ok(Granted::Now(row))
    }

    /// Answers a request with a key whose row another request settled. That request stored the response, unless this
    /// key was attached to the row later.
    async fn answer<R: TupleRow>(
        &self,
        call: &CompanyCall,
        attempt: &Attempt,
        id: Uuid,
        row: &R,
    ) -> Result<Once<R::Shown>, ApiError> {
        let mut tx = self.core.begin(&call.caller.subject, &call.correlation).await?;
        if let Claim::Done(replay) = idempotency::claim(&mut tx, attempt).await? {
            tx.unchanged().await?;
            return Ok(Once::Again(replay));
        }
        let shown = row.shown();
        idempotency::store(&mut tx, attempt, StatusCode::CREATED, &shown, Some(id)).await?;
        tx.commit_phase().await?;
        Ok(Once::First(Created(shown)))
    }

    /// Moves the row from `active` to `revoking`, once, and returns the transaction; resumes a `revoking` row. A `pending`
    /// row that can be removed keeps its state until [`Self::revoke`] holds its lock.
    async fn begin_removal<R: TupleRow>(
        &self,
        call: &CompanyCall,
        id: Uuid,
        guard: &impl Guard<R>,
    ) -> Result<Option<Box<AuditedTx>>, ApiError> {
        let mut tx = self.core.begin(&call.caller.subject, &call.correlation).await?;
        let row = R::find(tx.conn(), call.company, id).await?.ok_or_else(not_found::<R>)?;
        if lock::leave_active::<R>(&mut tx, call.company, id, R::STATES.revoking).await? {
            row.revoking(&mut tx).await?;
            guard.admit(&row, &mut tx).await?;
            return Ok(Some(Box::new(tx)));
        }
        let state = lock::state::<R>(tx.conn(), call.company, id).await?;
        tx.unchanged().await?;
        match state {
            // Nothing relies on a row that was never confirmed, so the guard is not asked.
            Some(state) if is_pending_but_removable::<R>(state) => Ok(None),
            // Either this resumes the row, or another request made it `active` again and the next round handles it.
            Some(RowState::Revoking { .. } | RowState::Active) => Ok(None),
            Some(RowState::Exchanging { .. }) => Err(changes()),
            Some(RowState::Pending { .. }) | None => Err(not_found::<R>()),
        }
    }

    /// Revokes the tuples, then deletes the row. `None` when another request made the row `active` again. A refusal makes
    /// it `active` only if this call began the removal.
    async fn revoke<R: TupleRow>(
        &self,
        call: &CompanyCall,
        id: Uuid,
        is_begun: bool,
    ) -> Result<Option<R>, ApiError> {
        let mut locked = Locked::take::<R>(&self.core, call.subject.as_str(), call.company, id).await?;
        let (row, state) = match locked.read::<R>().await? {
            Some((row, state @ RowState::Revoking { .. })) => (row, state),
            Some((row, state)) if is_pending_but_removable::<R>(state) => {
                (self.leave_pending(call, id, row).await?, state)
            }
            Some((_, RowState::Active | RowState::Exchanging { .. })) => return Ok(None),
            Some((_, RowState::Pending { .. })) | None => return Err(not_found::<R>()),
        };
        let by = row.removed_by().unwrap_or_else(|| call.caller.subject.as_str()).to_owned();
        // Only the call that began the removal needs the right; a resumed one is completed for any caller.
        let allowed = if is_begun { self.still_allowed(call).await } else { Ok(()) };
        let asked = match allowed {
            Ok(()) => {
                locked.count_attempt::<R>().await?;
                locked.ask(&self.authz, call, Op::Revoke, &row.removed_tuples()).await
            }
            Err(outage @ ApiError::Unavailable { .. }) => return Err(outage),
            Err(refused) => Err(GrantRefused::Refused(refused)),
        };
        let mut tx = match asked {
            Ok(_) => locked.begin_as(&self.core, &by, Some(call.correlation.as_str()), &row).await?,
            Err(GrantRefused::Refused(why)) if is_begun && state.is_untried() => {
                let mut tx = locked.begin(&self.core, call, &row).await?;
                lock::activate::<R>(&mut tx, call.company, id, R::STATES.revoking).await?;
                row.not_revoked(&mut tx).await?;
                tx.commit_phase().await?;
                return Err(why);
            }
            Err(refused) => return Err(refused.into()),
        };
        lock::delete::<R>(&mut tx, call.company, id, R::STATES.revoking).await?;
        let event = row.revoked(&mut tx).await?;
        tx.commit(&event).await?;
        Ok(Some(row))
    }

    /// Moves a `pending` row, whose lock the caller holds, to `revoking`: from here on it is never confirmed.
    async fn leave_pending<R: TupleRow>(&self, call: &CompanyCall, id: Uuid, row: R) -> Result<R, ApiError> {
        let mut tx = self.core.begin(&call.caller.subject, &call.correlation).await?;
        lock::reject::<R>(&mut tx, call.company, id).await?;
        row.rejecting(&mut tx).await?;
        let row = R::find(tx.conn(), call.company, id).await?.ok_or_else(not_found::<R>)?;
        tx.commit_phase().await?;
        Ok(row)
    }
}

/// Commits the first phase and runs the second one, in a task of its own. A handler is dropped when its client hangs up
/// or its time is over, even while it commits, and a row between its tuples and its last commit is shown by no list.
async fn to_the_end<T: Send + 'static>(
    begun: Option<Box<AuditedTx>>,
    phase: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    let work = watched(async move {
        if let Some(tx) = begun {
            tx.commit_phase().await?;
        }
        phase.await
    });
    // Boxed, so that tokio's task is compiled once for each type of result and not once for each phase.
    let (scope, work): (_, BoxFuture<'static, _>) = (Scope::present(), Box::pin(work));
    let task = tokio::spawn(async move {
        match scope {
            Some(scope) => scope.around(work).await,
            None => work.await,
        }
    });
    let (done, said) = task.await.map_err(ApiError::internal)?;
    said.note();
    done
}

/// 409: repeating the same change settles it.
fn changes() -> ApiError {
    ApiError::conflict("a change of it is under way")
}

/// `data` of the response that creates a row.
fn data_of<R: TupleRow>(row: &R) -> Result<Value, ApiError> {
    serde_json::to_value(row.shown()).map_err(ApiError::internal)
}

/// Whether the row is `pending`, its tuples may exist, and it can be removed nevertheless.
fn is_pending_but_removable<R: TupleRow>(state: RowState) -> bool {
    R::PENDING_MAY_BE_REMOVED && matches!(state, RowState::Pending { attempts: 1.. })
}

fn not_found<R: TupleRow>() -> ApiError {
    ApiError::NotFound(R::NOUN.into())
}

/// Commits the deletion of a row whose tuples were never granted.
async fn finish_refused<R: TupleRow>(mut tx: AuditedTx, row: &R) -> Result<(), ApiError> {
    match row.not_granted(&mut tx).await? {
        Some(event) => tx.commit(&event).await,
        None => tx.commit_phase().await,
    }
}
