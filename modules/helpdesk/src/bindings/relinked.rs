//! Removes bindings of member rows that org has since linked to another login. A member's binding stands for a tuple of
//! the login that the row had when it was bound, so it ends when the row gets another login; the row must then be bound
//! again. It is removed:
//!
//! - before a call is admitted whose login such a binding names ([`OldLogin`]): authz is then asked again, so that the
//!   old login no longer holds the tier on its next request;
//! - before the row is bound again, or the login is bound through its present row ([`settle_bound`]);
//! - by a worker ([`sweep`]), for programs that read tuples without asking this module.
//!
//! A row without a login keeps its binding while no other row of the company has that login: if the login returns, it
//! finds the binding, and until then it is not a member of the company.
//!
//! There is no bearer that authz would let change a tier, and the old login's must not be needed, so authz removes the
//! tuple with the services' credential ([`TwoStore::withdraw`](service::two_store::TwoStore::withdraw)). A stale
//! administrator cannot act, so its binding goes even when no other is left. Then only superadmins administer the
//! helpdesk, as before the company's first binding; the audit row and the log say so.

use std::sync::Arc;
use std::time::Duration;

use contract::grants::Tuple;
use contract::id::CompanyId;
use contract::{CorrelationId, Principal};
use serde_json::json;
use service::clients::org::FoundPrincipal;
use service::module::Parts;
use service::permit::{Removal, StaleRights};
use service::two_store::{SWEEP_EVERY, TupleRow, Withdrawal};
use service::{ApiError, AuditEvent, AuditedTx, CompanyCall};
use sqlx::PgConnection;
use uuid::Uuid;

use super::row::BindingRow;
use super::rules::Binding;
use super::store::{self, Bindings, BoundLogin};

/// The actor of the audit rows.
const ACTOR: &str = "system:relinked-bindings";
/// The reason in the audit rows of both stores.
const REASON: &str = "MEMBER_RELINKED";
/// Bindings that the worker reads at a time: as many members as one look-up in org takes.
const BATCH: i64 = 200;
/// How often the worker runs.
const EVERY: Duration = SWEEP_EVERY;

/// Starts the worker, and returns the hook that removes a caller's stale bindings.
pub(crate) fn start(parts: &Parts) -> Arc<dyn StaleRights> {
    let aside = Parts { core: parts.core.for_workers(), ..parts.clone() };
    parts.core.workers.every("bindings_relinked", EVERY, move || {
        let parts = aside.clone();
        async move { sweep(&parts).await }
    });
    Arc::new(OldLogin(parts.clone()))
}

/// Removes the bindings that name the caller's login and were made for another member row than the caller's.
struct OldLogin(Parts);

impl StaleRights for OldLogin {
    /// 503 while org, authz or the database does not answer; the call is not admitted then.
    fn remove<'a>(&'a self, call: &'a CompanyCall) -> Removal<'a> {
        Box::pin(remove_of_caller(&self.0, call))
    }
}

async fn remove_of_caller(parts: &Parts, call: &CompanyCall) -> Result<bool, ApiError> {
    let Bindings { bound, was_unbound } =
        store::of_login(&parts.core.pool, call.company, &call.subject).await?;
    if bound.is_empty() {
        // Another call may have removed the binding since authz allowed this one.
        return Ok(was_unbound);
    }
    // Without an active row, the login may still belong to a platform operator, so the bound rows decide which bindings
    // are stale.
    let stale: Vec<Uuid> = match parts.org.member_context_if_any(call).await? {
        Some(caller) => bound.iter().filter(|one| one.member != caller.member).map(|one| one.id).collect(),
        None => stale(parts, call.company, &bound, &call.correlation).await?,
    };
    remove(parts, call.company, &stale, &call.correlation).await?;
    Ok(was_unbound || !stale.is_empty())
}

/// Removes bindings that prevent binding this member with its present login: those of the row with another login, and
/// those of the login with another row. Does nothing for other principals.
///
/// # Errors
/// 503 while authz or the database does not answer.
pub(super) async fn settle_bound(
    parts: &Parts,
    call: &CompanyCall,
    found: &FoundPrincipal,
) -> Result<(), ApiError> {
    let (Principal::Member(member), Some(login)) = (found.principal, &found.kc_sub) else { return Ok(()) };
    let stale = store::at_odds(&parts.core.pool, call.company, member, login).await?;
    remove(parts, call.company, &stale, &call.correlation).await
}

/// Removes every binding whose member row, according to org, has another login, or has none while another row has the
/// binding's login.
///
/// # Errors
/// org, authz or the database cannot answer; the remaining bindings wait for the next round.
pub async fn sweep(parts: &Parts) -> Result<(), ApiError> {
    let mut after = None;
    loop {
        let read = store::bound_logins(&parts.core.pool, after.as_ref(), BATCH).await?;
        for of_company in read.chunk_by(|one, other| one.company == other.company) {
            let Some(company) = of_company.first().map(|one| one.company) else { continue };
            let correlation = CorrelationId::generate();
            let stale = stale(parts, company, of_company, &correlation).await?;
            remove(parts, company, &stale, &correlation).await?;
        }
        if i64::try_from(read.len()).unwrap_or(BATCH) < BATCH {
            return store::forget_unbound(&parts.core.pool).await;
        }
        after = read.into_iter().last();
    }
}

/// Returns the bindings whose row has another login, or whose login belongs to another row. Takes at most [`BATCH`].
async fn stale(
    parts: &Parts,
    company: CompanyId,
    bound: &[BoundLogin],
    correlation: &CorrelationId,
) -> Result<Vec<Uuid>, ApiError> {
    let rows = bound.iter().map(BoundLogin::row).collect::<Result<Vec<_>, _>>()?;
    let parted = parts.org.parted(company, &rows, correlation).await?;
    Ok(bound.iter().zip(parted).filter(|(_, parted)| *parted).map(|(one, _)| one.id).collect())
}

async fn remove(
    parts: &Parts,
    company: CompanyId,
    stale: &[Uuid],
    correlation: &CorrelationId,
) -> Result<(), ApiError> {
    let withdrawal = Withdrawal { company, actor: ACTOR, reason: REASON, correlation };
    for id in stale {
        parts.two_store().withdraw::<Relinked>(*id, &withdrawal).await?;
    }
    Ok(())
}

/// A binding whose member row has another login.
struct Relinked(BindingRow);

impl Relinked {
    fn ended(&self, action: &'static str) -> AuditEvent {
        let mut event = self.0.event(action);
        if let Some(members) = event.payload.as_object_mut() {
            members.insert("reason".to_owned(), json!(REASON));
        }
        event
    }
}

impl TupleRow for Relinked {
    const TABLE: &'static str = BindingRow::TABLE;
    const NOUN: &'static str = BindingRow::NOUN;
    type Shown = Binding;

    async fn find(conn: &mut PgConnection, company: CompanyId, id: Uuid) -> Result<Option<Self>, ApiError> {
        Ok(BindingRow::find(conn, company, id).await?.map(Self))
    }

    fn tuples(&self) -> Vec<Tuple> {
        self.0.tuples()
    }

    fn shown(&self) -> Binding {
        self.0.shown()
    }

    async fn granted(&self, _tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        Err(ApiError::internal("a binding of a relinked member row cannot be granted"))
    }

    async fn not_granted(&self, tx: &mut AuditedTx) -> Result<Option<AuditEvent>, ApiError> {
        self.0.note_unbound(tx).await?;
        Ok(Some(self.ended("binding.create_failed")))
    }

    /// Refuses nothing: a stale administrator cannot act, so keeping it as the last one would help nobody.
    async fn revoking(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        if self.0.is_admin() { store::count_out(tx, self.0.stored.company).await } else { Ok(()) }
    }

    async fn revoked(&self, tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        self.0.note_unbound(tx).await?;
        let mut event = self.ended("binding.deleted");
        if !self.0.is_admin() {
            return Ok(event);
        }
        let company = self.0.stored.company;
        let left = store::administrators(tx, company).await?;
        if left == 0 {
            tracing::warn!(
                %company,
                "removed a helpdesk's last administrator, whose login changed; only superadmins administer it now"
            );
        }
        if let Some(members) = event.payload.as_object_mut() {
            members.insert("administratorBindingsLeft".to_owned(), json!(left));
        }
        Ok(event)
    }
}
