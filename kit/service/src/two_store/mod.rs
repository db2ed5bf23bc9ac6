//! Rows of a module that stand for tuples of authz: a binding, a share. The two stores have no transaction in common, and
//! authz takes a change of tuples only with the user's bearer, so each operation moves the row through states and asks
//! authz in between (`foundation.md` C11):
//!
//! ```text
//! insert -> pending  -> authz grants  -> active, audit row     (settled)
//! active -> revoking -> authz revokes -> deleted, audit row    (gone)
//! active -> exchanging -> authz grants and revokes -> active, audit row    (settled, for other tuples)
//! ```
//!
//! - **One at a time.** From reading the state to settling it an operation holds the row's advisory lock, on the connection
//!   that also writes the row. A second request waits, then finds what the first one left. A process that dies
//!   loses the connection, and with it the lock, at once; one that only lost the connection can no longer write the row.
//! - **Resumable.** After a crash at any point, or when authz gave no answer, the same request picks the row up where it
//!   stands. Asking authz again changes nothing.
//! - **Refused.** A refusal undoes the state, unless an earlier attempt may have changed the tuples already; then the row
//!   waits for the request's repetition or for the sweep.
//! - **Swept.** [`TwoStore::sweep`] settles what nobody resumed. It has no bearer, so it gives no tuple: it asks authz
//!   which tuples stand and makes the row say so.
//! - **Withdrawn.** [`TwoStore::withdraw`] removes a row that stands for what is true no more, whoever asks and by no bearer.
//!
//! A table of such rows has, beside its own columns:
//!
//! ```sql
//! id uuid PRIMARY KEY, company_id uuid NOT NULL, state text NOT NULL CHECK (state IN ('pending', 'active', 'revoking')),
//! attempts int NOT NULL DEFAULT 0, attempted_at timestamptz NOT NULL DEFAULT now()
//! CREATE INDEX … ON <table>(id) WHERE state <> 'active';                        -- for the sweep
//! ```
//!
//! `pending` rows grant nothing yet, and the tuples of `revoking` rows may be gone already: lists of accessible
//! objects leave both out.
//! `exchanging` ([`Exchange`]) is a state of tables whose rows come to stand for other tuples: a share whose role changes.

mod exchange;
mod lock;
mod sweep;
mod withdraw;

use contract::grants::{Op, Tuple};
use contract::id::CompanyId;
use http::StatusCode;
use serde::Serialize;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use self::lock::{Locked, RowState};
use crate::clients::authz::AuthzClient;
use crate::clients::grants::GrantRefused;
use crate::contention::retried;
use crate::idempotency::{self, Attempt, Claim, Once, Replay};
use crate::{ApiError, AuditEvent, AuditedTx, CompanyCall, Core, Created};

pub use withdraw::Withdrawal;

pub use sweep::{REVOKED_AFTER, STALE_AFTER, SWEEP_BATCH, SWEEP_EVERY, Swept};

/// How often an operation starts over because another one settled its row first; each time the row's state says more.
const ROUNDS: usize = 3;

/// The words of a table's `state` column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct States {
    /// The row is there, its tuples may not be.
    pub pending: &'static str,
    /// Row and tuples agree.
    pub active: &'static str,
    /// The row is going, its tuples may be gone.
    pub revoking: &'static str,
    /// The row is coming to stand for other tuples; a table without [`Exchange`] never holds it.
    pub exchanging: &'static str,
}

impl States {
    /// Of bindings and shares.
    pub const USUAL: Self =
        Self { pending: "pending", active: "active", revoking: "revoking", exchanging: "exchanging" };
}

/// A module's row that stands for tuples. The driver moves the state and deletes the row; what else changes with it, such
/// as a counter, the module writes in the same transaction.
pub trait TupleRow: Sized + Send + Sync {
    /// Schema and table, as `helpdesk.bindings`.
    const TABLE: &'static str;
    /// What a refusal calls it, as `binding`.
    const NOUN: &'static str;
    /// The words of its states.
    const STATES: States = States::USUAL;
    /// `data` of the operation that makes it.
    type Shown: Serialize + Send;

    /// Reads the row whatever its state.
    fn find(
        conn: &mut PgConnection,
        company: CompanyId,
        id: Uuid,
    ) -> impl Future<Output = Result<Option<Self>, ApiError>> + Send;

    /// The tuples that it stands for: the same ones for as long as it lives, but for an [`Exchange`].
    fn tuples(&self) -> Vec<Tuple>;

    /// The tuples that its removal takes: at least [`Self::tuples`]. More where an exchange that a crash broke off may have
    /// left others standing.
    fn removed_tuples(&self) -> Vec<Tuple> {
        self.tuples()
    }

    /// What an `exchanging` row comes to stand for.
    fn next(&self) -> Option<Next> {
        None
    }

    /// Whether a removal that a crash broke off may be given up: the sweep makes a row `active` again whose tuples still
    /// stand. A row that must go all the same says false: the sweep takes its tuples by the services' credential, so they are
    /// users' tuples.
    const REMOVAL_MAY_BE_GIVEN_UP: bool = true;

    /// What its making answers.
    fn shown(&self) -> Self::Shown;

    /// The tuples stand and the row is `active`; gives the audit row.
    fn granted(&self, tx: &mut AuditedTx) -> impl Future<Output = Result<AuditEvent, ApiError>> + Send;

    /// The tuples were never granted and the row is deleted; gives an audit row where that is worth one.
    fn not_granted(
        &self,
        _tx: &mut AuditedTx,
    ) -> impl Future<Output = Result<Option<AuditEvent>, ApiError>> + Send {
        async { Ok(None) }
    }

    /// The row becomes `revoking`; a refusal leaves it `active`.
    fn revoking(&self, _tx: &mut AuditedTx) -> impl Future<Output = Result<(), ApiError>> + Send {
        async { Ok(()) }
    }

    /// The tuples are gone and so is the row; gives the audit row.
    fn revoked(&self, tx: &mut AuditedTx) -> impl Future<Output = Result<AuditEvent, ApiError>> + Send;

    /// The tuples still stand and the row is `active` again; takes back what [`Self::revoking`] wrote.
    fn not_revoked(&self, _tx: &mut AuditedTx) -> impl Future<Output = Result<(), ApiError>> + Send {
        async { Ok(()) }
    }

    /// [`Self::next`] stands and the row is `active` again: writes that the row stands for it; gives the audit row.
    fn exchanged(&self, _tx: &mut AuditedTx) -> impl Future<Output = Result<AuditEvent, ApiError>> + Send {
        async { Err(ApiError::internal("this row stands for the same tuples as long as it lives")) }
    }

    /// The tuples that it stood for still stand and the row is `active` again; takes back what [`Exchange::begin`] wrote.
    fn not_exchanged(&self, _tx: &mut AuditedTx) -> impl Future<Output = Result<(), ApiError>> + Send {
        async { Ok(()) }
    }
}

/// What an `exchanging` row comes to stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Next {
    /// The tuples.
    pub tuples: Vec<Tuple>,
    /// They give at least what the old ones gave, so they are granted before those are revoked: nobody loses access in
    /// between. Otherwise the old ones go first, so that nobody ever has both.
    pub gains: bool,
}

/// A change of the tuples that an `active` row stands for.
pub trait Exchange: Sync {
    /// Whose.
    type Row: TupleRow;

    /// Writes what the row comes to stand for ([`TupleRow::next`]), or refuses; `false` when it stands for that already.
    fn begin(
        &self,
        row: &Self::Row,
        tx: &mut AuditedTx,
    ) -> impl Future<Output = Result<bool, ApiError>> + Send;

    /// Whether the row is on its way to just this.
    fn is_under_way(&self, row: &Self::Row) -> bool;
}

/// A row that an operation is to make.
pub trait NewRow: Sync {
    /// What it becomes.
    type Row: TupleRow;

    /// Adds a `pending` row and gives its id. For a principal that has a `pending` row already it gives that one's, and for
    /// any other row it refuses. It is called again when another request settled or removed the row meanwhile.
    fn insert(&self, tx: &mut AuditedTx) -> impl Future<Output = Result<Uuid, ApiError>> + Send;
}

/// What has to hold before a row may be removed, beyond what the row itself says ([`TupleRow::revoking`]): it is asked in
/// the transaction in which the row becomes `revoking`, after the row, and a refusal leaves the row `active`.
pub trait Guard<R>: Sync {
    /// Refuses the removal, or lets it go on.
    fn admit(&self, row: &R, tx: &mut AuditedTx) -> impl Future<Output = Result<(), ApiError>> + Send;
}

/// Lets every removal go on.
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
}

/// What a grant found behind the lock.
#[derive(Debug)]
enum Granted<R> {
    /// This request settled the row.
    Now(R),
    /// Another one did.
    Before(R),
    /// The row is gone.
    Gone,
}

/// Where the first phase of a creation ended.
enum Begun {
    Row(Uuid),
    Answered(Replay),
}

impl TwoStore {
    /// For the rows of one module.
    #[must_use]
    pub const fn new(core: Core, authz: AuthzClient) -> Self {
        Self { core, authz }
    }

    /// Makes a row with its tuples. With an attempt the operation is idempotent in two phases.
    ///
    /// # Errors
    /// As [`NewRow::insert`]; 403 and 422 as authz refused; 503 when authz gives no answer, or another request works on the row
    /// for longer than the lock timeout: then the same request resumes.
    pub async fn create<N: NewRow>(
        &self,
        call: &CompanyCall,
        attempt: Option<&Attempt>,
        new: &N,
    ) -> Result<Once<<N::Row as TupleRow>::Shown>, ApiError> {
        for _ in 0..ROUNDS {
            let id = match self.begin(call, attempt, new).await? {
                Begun::Row(id) => id,
                Begun::Answered(replay) => return Ok(Once::Again(replay)),
            };
            // On the heap, here and below: a handler's future would else be larger than most requests need.
            match (retried(|| Box::pin(self.grant::<N::Row>(call, id, attempt))).await?, attempt) {
                (Granted::Now(row), _) => return Ok(Once::First(Created(row.shown()))),
                (Granted::Before(row), Some(attempt)) => return self.answer(call, attempt, id, &row).await,
                (Granted::Before(_), None) | (Granted::Gone, _) => {}
            }
        }
        Err(ApiError::unavailable("postgres"))
    }

    /// Removes a row with its tuples, and gives it as it was.
    ///
    /// # Errors
    /// 404 for a row that is not there or `pending`; as [`TupleRow::revoking`]; else as [`Self::create`].
    pub async fn remove<R: TupleRow>(&self, call: &CompanyCall, id: Uuid) -> Result<R, ApiError> {
        self.remove_guarded(call, id, &Unguarded).await
    }

    /// The same where `guard` lets it. A row that is `revoking` already is resumed without asking the guard again.
    ///
    /// # Errors
    /// As [`Guard::admit`]; else as [`Self::remove`].
    pub async fn remove_guarded<R: TupleRow>(
        &self,
        call: &CompanyCall,
        id: Uuid,
        guard: &impl Guard<R>,
    ) -> Result<R, ApiError> {
        for _ in 0..ROUNDS {
            self.begin_removal::<R>(call, id, guard).await?;
            if let Some(row) = retried(|| Box::pin(self.revoke::<R>(call, id))).await? {
                return Ok(row);
            }
        }
        Err(ApiError::unavailable("postgres"))
    }

    /// The first phase: the row and the claim of the key, committed together.
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
                return Ok(Begun::Row(id));
            }
            // The row of the claim was never granted and is gone: nothing was done under this key.
            Claim::Resume(_) | Claim::Ours => {}
        }
        let id = new.insert(&mut tx).await?;
        if let Some(attempt) = attempt {
            idempotency::hold(&mut tx, attempt, id).await?;
        }
        tx.commit_phase().await?;
        Ok(Begun::Row(id))
    }

    /// The second phase: the tuples, then the row, its audit row and the stored answer together.
    async fn grant<R: TupleRow>(
        &self,
        call: &CompanyCall,
        id: Uuid,
        attempt: Option<&Attempt>,
    ) -> Result<Granted<R>, ApiError> {
        let mut locked = Locked::take::<R>(&self.core, call.company, id).await?;
        let (row, state) = match locked.read::<R>().await? {
            Some((row, RowState::Active | RowState::Exchanging { .. })) => return Ok(Granted::Before(row)),
            Some((_, RowState::Revoking { .. })) => {
                return Err(ApiError::conflict("it is being removed"));
            }
            Some((row, state @ RowState::Pending { .. })) => (row, state),
            None => return Ok(Granted::Gone),
        };
        locked.count_attempt::<R>().await?;
        let asked = locked.ask(&self.authz, call, Op::Grant, &row.tuples()).await;
        let mut tx = match asked {
            Ok(_) => locked.begin(&self.core, call).await?,
            Err(GrantRefused::Refused(why)) if state.is_untried() => {
                let mut tx = locked.begin(&self.core, call).await?;
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
        // Its own key's, and those of requests whose second phase this one did.
        idempotency::store_for_row(&mut tx, call.company, id, data_of(&row)?).await?;
        tx.commit(&event).await?;
        Ok(Granted::Now(row))
    }

    /// Answers a keyed request whose row another one settled, which has stored the answer unless the key came to the row
    /// after that.
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

    /// `active` becomes `revoking`, once; a row that is `revoking` is resumed.
    async fn begin_removal<R: TupleRow>(
        &self,
        call: &CompanyCall,
        id: Uuid,
        guard: &impl Guard<R>,
    ) -> Result<(), ApiError> {
        let mut tx = self.core.begin(&call.caller.subject, &call.correlation).await?;
        let row = R::find(tx.conn(), call.company, id).await?.ok_or_else(not_found::<R>)?;
        if lock::leave_active::<R>(&mut tx, call.company, id, R::STATES.revoking).await? {
            row.revoking(&mut tx).await?;
            guard.admit(&row, &mut tx).await?;
            return tx.commit_phase().await;
        }
        let state = lock::state::<R>(tx.conn(), call.company, id).await?;
        tx.unchanged().await?;
        match state {
            // It is resumed, or another request made it `active` again since and the next round takes it.
            Some(RowState::Revoking { .. } | RowState::Active) => Ok(()),
            Some(RowState::Exchanging { .. }) => Err(changes()),
            Some(RowState::Pending { .. }) | None => Err(not_found::<R>()),
        }
    }

    /// The tuples, then the row. `None`: another request made it `active` again.
    async fn revoke<R: TupleRow>(&self, call: &CompanyCall, id: Uuid) -> Result<Option<R>, ApiError> {
        let mut locked = Locked::take::<R>(&self.core, call.company, id).await?;
        let (row, state) = match locked.read::<R>().await? {
            Some((row, state @ RowState::Revoking { .. })) => (row, state),
            Some((_, RowState::Active | RowState::Exchanging { .. })) => return Ok(None),
            Some((_, RowState::Pending { .. })) | None => return Err(not_found::<R>()),
        };
        locked.count_attempt::<R>().await?;
        let asked = locked.ask(&self.authz, call, Op::Revoke, &row.removed_tuples()).await;
        let mut tx = match asked {
            Ok(_) => locked.begin(&self.core, call).await?,
            Err(GrantRefused::Refused(why)) if state.is_untried() => {
                let mut tx = locked.begin(&self.core, call).await?;
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
}

/// 409: the same change again settles it.
fn changes() -> ApiError {
    ApiError::conflict("a change of it is under way")
}

/// `data` of the answer that made a row.
fn data_of<R: TupleRow>(row: &R) -> Result<Value, ApiError> {
    serde_json::to_value(row.shown()).map_err(ApiError::internal)
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
