//! One row's advisory lock and the statements that move its state. The lock belongs to a database session: it is held
//! without a transaction while authz is asked, and ends with the connection, which is closed after the operation.
//! Grants are rare, so a new connection for each costs less than the risk of a lock that outlives its operation in the
//! pool.

use std::time::Duration;

use contract::grants::{Op, Tuple};
use contract::id::CompanyId;
use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Transaction};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use super::TupleRow;
use crate::clients::authz::AuthzClient;
use crate::clients::grants::{Changed, GRANTS_BUDGET, GrantRefused, Taken};
use crate::db::{LOCK_NOT_HAD, has_state};
use crate::fair_share::FairPermit;
use crate::layers::REQUEST_TIMEOUT;
use crate::{ApiError, AuditedTx, CompanyCall, Core};

/// Longest wait for a turn: a subject's operations follow one another, and waiting holds nothing.
const TURN_TIMEOUT: Duration = Duration::from_secs(4);
/// Longest that authz may keep working on an abandoned call.
const AUTHZ_GIVES_UP: Duration = REQUEST_TIMEOUT;

/// The state column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowState {
    Pending { attempts: i32 },
    Active,
    Revoking { attempts: i32 },
    Exchanging { attempts: i32 },
}

impl RowState {
    /// Whether authz has not been asked since the row entered this state; then its refusal means that nothing was
    /// changed.
    pub(super) const fn is_untried(self) -> bool {
        matches!(
            self,
            Self::Pending { attempts: 0 } | Self::Revoking { attempts: 0 } | Self::Exchanging { attempts: 0 }
        )
    }
}

/// A row that no other operation touches. Dropping it closes the connection and thereby releases the lock, but only
/// after authz has given up any call that is still in flight.
pub(super) struct Locked {
    conn: Option<PoolConnection<Postgres>>,
    /// Bounds the connections that wait for authz or for another row's lock.
    hold: Option<FairPermit>,
    company: CompanyId,
    id: Uuid,
    /// When a call with an unknown outcome began.
    on_its_way: Option<Instant>,
}

impl Locked {
    /// Locks the row for `by`, waiting up to the role's lock timeout.
    pub(super) async fn take<R: TupleRow>(
        core: &Core,
        by: &str,
        company: CompanyId,
        id: Uuid,
    ) -> Result<Self, ApiError> {
        let (hold, conn) = closing(core, by).await?;
        Self::wait::<R>(hold, conn, company, id).await.map_err(ApiError::from)
    }

    /// Locks the row for an exchange: a lock timeout is 409, because others are changing the row.
    pub(super) async fn take_for_exchange<R: TupleRow>(
        core: &Core,
        by: &str,
        company: CompanyId,
        id: Uuid,
    ) -> Result<Self, ApiError> {
        let (hold, conn) = closing(core, by).await?;
        Self::wait::<R>(hold, conn, company, id).await.map_err(waited_in_vain)
    }

    async fn wait<R: TupleRow>(
        hold: FairPermit,
        mut conn: PoolConnection<Postgres>,
        company: CompanyId,
        id: Uuid,
    ) -> sqlx::Result<Self> {
        sqlx::query("SELECT pg_catalog.pg_advisory_lock(pg_catalog.hashtextextended($1, 0))")
            .bind(name::<R>(id))
            .execute(&mut *conn)
            .await?;
        Ok(Self { conn: Some(conn), hold: Some(hold), company, id, on_its_way: None })
    }

    /// Locks the row if no other operation holds the lock.
    pub(super) async fn try_take<R: TupleRow>(
        core: &Core,
        by: &str,
        company: CompanyId,
        id: Uuid,
    ) -> Result<Option<Self>, ApiError> {
        let (hold, mut conn) = closing(core, by).await?;
        let had: bool =
            sqlx::query_scalar("SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended($1, 0))")
                .bind(name::<R>(id))
                .fetch_one(&mut *conn)
                .await?;
        Ok(had.then_some(Self { conn: Some(conn), hold: Some(hold), company, id, on_its_way: None }))
    }

    /// Reads the row and its current state.
    pub(super) async fn read<R: TupleRow>(&mut self) -> Result<Option<(R, RowState)>, ApiError> {
        let (company, id) = (self.company, self.id);
        let conn = self.conn()?;
        // Read the state first: an `active` row can leave that state without the lock, and a row read before that would
        // lack the new tuples.
        let state = state::<R>(&mut *conn, company, id).await?;
        let row = R::find(conn, company, id).await?;
        Ok(row.zip(state))
    }

    /// Asks authz to change tuples of the row.
    pub(super) async fn ask(
        &mut self,
        authz: &AuthzClient,
        call: &CompanyCall,
        op: Op,
        tuples: &[Tuple],
    ) -> Result<Changed, GrantRefused> {
        self.watched(authz.change(call, op, tuples)).await
    }

    /// Has authz remove tuples of the row, by the services' credential.
    pub(super) async fn take_tuples(
        &mut self,
        authz: &AuthzClient,
        taken: &Taken<'_>,
        tuples: &[Tuple],
    ) -> Result<Changed, GrantRefused> {
        self.watched(authz.take(taken, tuples)).await
    }

    async fn watched(
        &mut self,
        asked: impl Future<Output = Result<Changed, GrantRefused>>,
    ) -> Result<Changed, GrantRefused> {
        let started = Instant::now();
        self.on_its_way = Some(started);
        let answer = asked.await;
        // A call that failed before its time limit was answered or cut off, and authz gives up a call that is cut off.
        let in_doubt =
            matches!(answer, Err(GrantRefused::Unanswered(_))) && started.elapsed() >= GRANTS_BUDGET;
        if !in_doubt {
            self.on_its_way = None;
        }
        answer
    }

    /// Begins the transaction that settles the row, on the connection that holds its lock.
    pub(super) async fn begin<R: TupleRow>(
        self,
        core: &Core,
        call: &CompanyCall,
        row: &R,
    ) -> Result<AuditedTx, ApiError> {
        self.begin_as(core, call.caller.subject.as_str(), Some(call.correlation.as_str()), row).await
    }

    /// The same with another actor.
    pub(super) async fn begin_as<R: TupleRow>(
        mut self,
        core: &Core,
        actor: &str,
        correlation: Option<&str>,
        row: &R,
    ) -> Result<AuditedTx, ApiError> {
        let conn = self.conn.take().ok_or_else(lost)?;
        let tx = Transaction::begin(conn, None).await?;
        let mut tx = AuditedTx::new(tx, core.name, actor, correlation);
        row.lock(&mut tx).await?;
        Ok(tx)
    }

    /// Counts an attempt and commits it at once: an operation that takes the row after a crash must know that authz may
    /// have been asked.
    pub(super) async fn count_attempt<R: TupleRow>(&mut self) -> Result<(), ApiError> {
        let (company, id) = (self.company, self.id);
        let sql = format!(
            "UPDATE {} SET attempts = attempts + 1, attempted_at = now() WHERE company_id = $1 AND id = $2",
            R::TABLE
        );
        let counted = sqlx::query(text(sql)).bind(company.as_uuid()).bind(id).execute(self.conn()?).await?;
        one(counted.rows_affected())
    }

    /// Whether the last attempt is at least this old.
    pub(super) async fn is_stale<R: TupleRow>(&mut self, age: Duration) -> Result<bool, ApiError> {
        let (company, id) = (self.company, self.id);
        let sql = format!(
            "SELECT attempted_at <= now() - make_interval(secs => $3) FROM {} WHERE company_id = $1 AND id = $2",
            R::TABLE
        );
        let found: Option<bool> = sqlx::query_scalar(text(sql))
            .bind(company.as_uuid())
            .bind(id)
            .bind(age.as_secs_f64())
            .fetch_optional(self.conn()?)
            .await?;
        Ok(found.unwrap_or_default())
    }

    fn conn(&mut self) -> Result<&mut PgConnection, ApiError> {
        self.conn.as_deref_mut().ok_or_else(lost)
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        let hold = self.hold.take();
        let (Some(conn), Some(started)) = (self.conn.take(), self.on_its_way) else { return };
        // Without a runtime the process is exiting, and the connection with it.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                tokio::time::sleep_until(started + AUTHZ_GIVES_UP).await;
                drop((conn, hold));
            });
        }
    }
}

/// A connection that will not return to the pool, and the permit that bounds their number: one for each subject.
async fn closing(core: &Core, by: &str) -> Result<(FairPermit, PoolConnection<Postgres>), ApiError> {
    let unavailable = || ApiError::unavailable("postgres");
    let permit =
        timeout(TURN_TIMEOUT, core.holds.acquire(by, usize::MAX)).await.map_err(|_| unavailable())?;
    let permit = permit.map_err(ApiError::internal)?.ok_or_else(unavailable)?;
    let mut conn = core.pool.acquire().await?;
    conn.close_on_drop();
    Ok((permit, conn))
}

/// Maps a lock timeout to 409.
fn waited_in_vain(error: sqlx::Error) -> ApiError {
    if has_state(&error, LOCK_NOT_HAD) { super::changes() } else { error.into() }
}

fn name<R: TupleRow>(id: Uuid) -> String {
    format!("{}:{id}", R::TABLE)
}

fn lost() -> ApiError {
    ApiError::internal("a row's lock was used after its transaction")
}

/// The table name and the state words are constants of the module; everything else is bound. The names differ by
/// module, so this cannot be a checked query.
fn text(sql: String) -> AssertSqlSafe<String> {
    AssertSqlSafe(sql)
}

/// The row's state, or `None` without a row.
pub(super) async fn state<R: TupleRow>(
    conn: &mut PgConnection,
    company: CompanyId,
    id: Uuid,
) -> Result<Option<RowState>, ApiError> {
    let sql = format!("SELECT state, attempts FROM {} WHERE company_id = $1 AND id = $2", R::TABLE);
    let found: Option<(String, i32)> =
        sqlx::query_as(text(sql)).bind(company.as_uuid()).bind(id).fetch_optional(conn).await?;
    let Some((state, attempts)) = found else { return Ok(None) };
    match state {
        state if state == R::STATES.pending => Ok(Some(RowState::Pending { attempts })),
        state if state == R::STATES.revoking => Ok(Some(RowState::Revoking { attempts })),
        state if state == R::STATES.exchanging => Ok(Some(RowState::Exchanging { attempts })),
        // A module may have further states for rows that agree with their tuples, such as `trashed`.
        _ => Ok(Some(RowState::Active)),
    }
}

/// Moves the row from `active` to the state `to`, which is `revoking` or `exchanging`; false when the row was not
/// `active`.
pub(super) async fn leave_active<R: TupleRow>(
    tx: &mut AuditedTx,
    company: CompanyId,
    id: Uuid,
    to: &'static str,
) -> Result<bool, ApiError> {
    let sql = format!(
        "UPDATE {} SET state = $3, attempts = 0, attempted_at = now() \
         WHERE company_id = $1 AND id = $2 AND state = $4",
        R::TABLE
    );
    let moved = sqlx::query(text(sql))
        .bind(company.as_uuid())
        .bind(id)
        .bind(to)
        .bind(R::STATES.active)
        .execute(tx.conn())
        .await?;
    Ok(moved.rows_affected() == 1)
}

/// Moves the row to `active` from the state that was read under the lock.
pub(super) async fn activate<R: TupleRow>(
    tx: &mut AuditedTx,
    company: CompanyId,
    id: Uuid,
    from: &'static str,
) -> Result<(), ApiError> {
    let sql = format!("UPDATE {} SET state = $3 WHERE company_id = $1 AND id = $2 AND state = $4", R::TABLE);
    let moved = sqlx::query(text(sql))
        .bind(company.as_uuid())
        .bind(id)
        .bind(R::STATES.active)
        .bind(from)
        .execute(tx.conn())
        .await?;
    one(moved.rows_affected())
}

/// Moves the row from `pending` to `revoking`. The caller holds the row's lock.
pub(super) async fn reject<R: TupleRow>(
    tx: &mut AuditedTx,
    company: CompanyId,
    id: Uuid,
) -> Result<(), ApiError> {
    let sql = format!("UPDATE {} SET state = $3 WHERE company_id = $1 AND id = $2 AND state = $4", R::TABLE);
    let moved = sqlx::query(text(sql))
        .bind(company.as_uuid())
        .bind(id)
        .bind(R::STATES.revoking)
        .bind(R::STATES.pending)
        .execute(tx.conn())
        .await?;
    one(moved.rows_affected())
}

/// Deletes the row in the state that was read under the lock.
pub(super) async fn delete<R: TupleRow>(
    tx: &mut AuditedTx,
    company: CompanyId,
    id: Uuid,
    from: &'static str,
) -> Result<(), ApiError> {
    let sql = format!("DELETE FROM {} WHERE company_id = $1 AND id = $2 AND state = $3", R::TABLE);
    let deleted =
        sqlx::query(text(sql)).bind(company.as_uuid()).bind(id).bind(from).execute(tx.conn()).await?;
    one(deleted.rows_affected())
}

/// Checks that exactly one row changed: no other statement may move a locked row.
fn one(rows: u64) -> Result<(), ApiError> {
    if rows == 1 { Ok(()) } else { Err(ApiError::internal("a locked row was changed by another statement")) }
}
