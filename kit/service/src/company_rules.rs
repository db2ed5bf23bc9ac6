//! A company's rules for a module: one row per company, read as a whole and changed by any subset of its fields. A company
//! that never changed them has no row and gets the module's defaults.

use axum::extract::State;
use contract::fields::FromBody;
use contract::id::CompanyId;
use serde::Serialize;
use sqlx::PgExecutor;

use crate::{ApiError, Body, CompanyTx, Core, Data, Permit, Reads};

/// A module's rules, stored as a row of its `settings` table. Its default is what a company without a row has.
pub trait CompanyRules: Copy + Default + Serialize + Send + Sync + 'static {
    /// The body of a change.
    type Change: FromBody + RulesChange<Self> + Send;

    /// The company's row, if it has one.
    fn row<'a>(
        executor: impl PgExecutor<'a>,
        company: CompanyId,
    ) -> impl Future<Output = sqlx::Result<Option<Self>>> + Send;

    /// The rules of the permit's company.
    #[expect(clippy::must_use_candidate, reason = "a future already is")]
    fn find(reads: &Reads, permit: &Permit) -> impl Future<Output = Result<Self, ApiError>> + Send {
        let row = Self::row(reads, permit.company);
        async { Ok(row.await?.unwrap_or_default()) }
    }

    /// The rules of the transaction's company.
    fn of(tx: &mut CompanyTx) -> impl Future<Output = Result<Self, ApiError>> + Send {
        let company = tx.company();
        let row = Self::row(tx.conn(), company);
        async { Ok(row.await?.unwrap_or_default()) }
    }

    /// Inserts the default as the company's row, unless it has one.
    fn ensure(tx: &mut CompanyTx) -> impl Future<Output = Result<(), ApiError>> + Send;

    /// Reads the company's row, which exists, and locks it.
    fn locked(tx: &mut CompanyTx) -> impl Future<Output = Result<Self, ApiError>> + Send;

    /// Writes the rules of a row that [`Self::locked`] holds.
    fn save(self, tx: &mut CompanyTx) -> impl Future<Output = Result<(), ApiError>> + Send;
}

/// A change of some of the rules.
pub trait RulesChange<R> {
    /// Returns the rules after the change; fields that the change omits keep their values.
    #[must_use]
    fn apply(self, before: R) -> R;
}

/// A company's rules as clients see them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompanySettings<R> {
    /// The company.
    pub company_id: CompanyId,
    /// The rules.
    #[serde(flatten)]
    pub rules: R,
}

/// Handles `GET /settings`.
///
/// # Errors
/// Those of the permit; 503 when the database cannot be asked.
pub async fn read<R: CompanyRules>(
    State(core): State<Core>,
    permit: Permit,
) -> Result<Data<CompanySettings<R>>, ApiError> {
    let rules = R::find(&core.reads, &permit).await?;
    Ok(Data(CompanySettings { company_id: permit.company, rules }))
}

/// Handles `PUT /settings`; fields that the body omits keep their values.
///
/// # Errors
/// Those of the permit and the body; 503 when the database cannot be asked.
pub async fn update<R: CompanyRules>(
    State(core): State<Core>,
    permit: Permit,
    Body(change): Body<R::Change>,
) -> Result<Data<CompanySettings<R>>, ApiError> {
    let mut tx = permit.begin(&core).await?;
    // A lock, so that two partial changes do not undo each other; a row that is new here goes again with a transaction that
    // turns out to change nothing.
    R::ensure(&mut tx).await?;
    let before = R::locked(&mut tx).await?;
    let rules = change.apply(before);
    let save = async |tx: &mut CompanyTx| rules.save(tx).await;
    tx.commit_change(&before, &rules, save, "settings.updated", format!("settings:{}", permit.company))
        .await?;
    Ok(Data(CompanySettings { company_id: permit.company, rules }))
}
