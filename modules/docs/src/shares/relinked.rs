//! Removes shares with member rows that org has since linked to another login. A share with a member stands for a tuple
//! of the login that the row had when the share was given: grantees are users, positions and groups, not member rows
//! (module contract, "Grants"). So a share ends when its row gets another login. It is removed before anything depends
//! on it:
//!
//! - before each decision about a document or folder, when it names the caller's login through another member row
//!   ([`settle_caller`]), so that the old login opens nothing on its next request;
//! - before a share of that row is given, changed or listed ([`settle_member`], [`settle_link`], [`take`]), so that a
//!   share always stands for the person whose name it shows;
//! - by a worker ([`sweep`]), for programs that read tuples without asking this module.
//!
//! A row without a login keeps its share while no other row of the company has that login: if the login returns, it
//! finds the share, and until then it is not a member of the company. As with an interrupted transfer, any member's
//! bearer will do: authz lets it change the tuple, and only a tuple that should give nothing any more is removed. The
//! worker has no bearer; authz removes the tuple with the services' credential
//! ([`TwoStore::withdraw`](service::two_store::TwoStore::withdraw)).

use contract::grants::Tuple;
use contract::id::{CompanyId, MemberId};
use contract::{CorrelationId, Subject};
use contract::{Principal, principal::PrincipalKind};
use serde_json::json;
use service::clients::org::Found;
use service::two_store::{SWEEP_EVERY, TupleRow, Withdrawal};
use service::{ApiError, AuditEvent, AuditedTx, CompanyCall};
use sqlx::PgConnection;
use uuid::Uuid;

use super::row::{Acted, Swept};
use super::rules::{Share, ShareId, ShareRole, Shown, Target};
use super::store::{self, Grantee};
use crate::App;

/// The actor in the audit rows of removed shares, whether the worker or a request removes them.
const ACTOR: &str = "system:relinked-shares";
/// The reason in the audit rows of removed shares and declined requests.
pub(crate) const REASON: &str = "MEMBER_RELINKED";
/// Member rows that the worker reads at a time, which is what one look-up in org takes; also the shares of one member
/// row that it reads at a time.
const BATCH: i64 = 200;

/// Starts the worker.
pub(crate) fn start(app: &App) {
    let aside = App { core: app.core.for_workers(), ..app.clone() };
    app.core.workers.every("shares_relinked", SWEEP_EVERY, move || {
        let app = aside.clone();
        async move { sweep(&app).await }
    });
}

/// Removes every settled share whose member row, according to org, has another login, or has none while another row has
/// the share's login. Rows between two states are settled first (`service::two_store`).
///
/// # Errors
/// org, authz or the database cannot answer; the remaining shares wait for the next round.
pub async fn sweep(app: &App) -> Result<(), ApiError> {
    let mut after = None;
    loop {
        let read = store::grantees(&app.core.pool, after.as_ref(), BATCH).await?;
        for of_company in read.chunk_by(|one, other| one.company == other.company) {
            take_parted(app, of_company).await?;
        }
        if i64::try_from(read.len()).unwrap_or(BATCH) < BATCH {
            return Ok(());
        }
        after = read.into_iter().last();
    }
}

async fn take_parted(app: &App, of_company: &[Grantee]) -> Result<(), ApiError> {
    let Some(company) = of_company.first().map(|one| one.company) else { return Ok(()) };
    let correlation = CorrelationId::generate();
    let withdrawal = Withdrawal { company, actor: ACTOR, reason: REASON, correlation: &correlation };
    let rows: Vec<_> = of_company.iter().map(|one| (one.member, one.login.clone())).collect();
    let parted = app.org.parted(company, &rows, &correlation).await?;
    for (grantee, _) in of_company.iter().zip(parted).filter(|(_, parted)| *parted) {
        loop {
            let mut taken = 0;
            for id in store::of_grantee(&app.core.pool, grantee, BATCH).await? {
                match app.two_store().withdraw::<Relinked>(id, &withdrawal).await {
                    Ok(()) => taken += 1,
                    // The share is deleted with its folder.
                    Err(ApiError::NotFound(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            if taken == 0 {
                break;
            }
        }
    }
    Ok(())
}

/// Removes those of the caller's shares that were given to another member row. Every share in `shares` names the
/// caller's login.
///
/// # Errors
/// 503 while org, authz or the database does not answer; the call is not decided then.
pub(crate) async fn settle_caller(app: &App, call: &CompanyCall, shares: &[ShareId]) -> Result<(), ApiError> {
    if shares.is_empty() {
        return Ok(());
    }
    // Without an active row the caller opens nothing as a member; the row may become active again, so its shares stay.
    let Some(caller) = app.org.member_context_if_any(call).await? else { return Ok(()) };
    for id in shares {
        let share = store::find(&app.core.pool, call.company, *id).await?;
        if share.is_some_and(|share| share.principal.member() != Some(caller.member)) {
            take(app, call, *id).await?;
        }
    }
    Ok(())
}

/// Calls [`settle_link`] with the member row's current login from org; does nothing for other principals.
///
/// # Errors
/// As [`settle_caller`].
pub(crate) async fn settle_member(
    app: &App,
    call: &CompanyCall,
    target: Target,
    principal: Principal,
) -> Result<(), ApiError> {
    if principal.kind() != PrincipalKind::Member {
        return Ok(());
    }
    let found = app.org.lookup(call.company, &principal.into(), &call.correlation).await?;
    match linked(&found, principal) {
        Some((member, login)) => settle_link(app, call, target, member, login).await,
        None => Ok(()),
    }
}

/// Removes the target's shares with this member row under another login, and with this login under another member row.
///
/// # Errors
/// As [`settle_caller`].
pub(crate) async fn settle_link(
    app: &App,
    call: &CompanyCall,
    target: Target,
    member: MemberId,
    login: &Subject,
) -> Result<(), ApiError> {
    for share in store::list_given(&app.core.pool, call.company, target).await? {
        if share.principal.member().is_some() && is_relinked(&share, member, login) {
            take(app, call, share.id).await?;
        }
    }
    Ok(())
}

/// Whether a member's share stands for a login other than the row's current one in org.
pub(crate) fn is_of_another_login(share: &Share, found: &Found) -> bool {
    linked(found, share.principal).is_some_and(|(member, login)| is_relinked(share, member, login))
}

/// Whether the share has this member row or this login, but not both.
fn is_relinked(share: &Share, member: MemberId, login: &Subject) -> bool {
    let is_row = share.principal.member() == Some(member);
    let is_login = share.kc_sub.as_ref() == Some(login);
    is_row != is_login
}

fn linked(found: &Found, principal: Principal) -> Option<(MemberId, &Subject)> {
    let id = principal.member()?;
    let member = found.members.iter().find(|member| member.id == id)?;
    Some((id, member.kc_sub.as_ref()?))
}

/// Removes one such share.
///
/// # Errors
/// As [`settle_caller`].
pub(crate) async fn take(app: &App, call: &CompanyCall, id: ShareId) -> Result<(), ApiError> {
    match app.two_store().remove::<Relinked>(call, id.as_uuid()).await {
        Ok(_) | Err(ApiError::NotFound(_)) => Ok(()),
        // Fail closed: another request is changing the share.
        Err(ApiError::Conflict { .. }) => Err(ApiError::unavailable("postgres")),
        Err(error) => Err(error),
    }
}

/// A share to remove because its member row has another login. If that login has a share of the same target through its
/// present member row, the tuple of that share stays.
struct Relinked {
    share: Share,
    kept: Option<ShareRole>,
}

impl TupleRow for Relinked {
    const TABLE: &'static str = "docs.shares";
    const NOUN: &'static str = "share";
    const PENDING_MAY_BE_REMOVED: bool = true;
    type Shown = Shown;

    async fn find(conn: &mut PgConnection, company: CompanyId, id: Uuid) -> Result<Option<Self>, ApiError> {
        let Some(share) = store::find(&mut *conn, company, id.into()).await? else { return Ok(None) };
        let kept = store::kept(conn, &share).await?;
        Ok(Some(Self { share, kept }))
    }

    fn tuples(&self) -> Vec<Tuple> {
        Swept::from_share(&self.share).tuples()
    }

    fn removed_tuples(&self) -> Vec<Tuple> {
        Acted::<false>(self.share.clone(), self.kept).removed_tuples()
    }

    fn removed_by(&self) -> Option<&str> {
        self.share.revoked_by.as_deref()
    }

    fn shown(&self) -> Shown {
        self.share.clone().shown(None)
    }

    async fn granted(&self, _tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        Err(ApiError::internal("a share of a relinked member row cannot be granted"))
    }

    async fn revoking(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        store::hold_target(tx, &self.share).await?;
        self.rejecting(tx).await
    }

    /// The caller whose request comes upon the share did not ask for its removal.
    async fn rejecting(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        store::set_revoked(tx, &self.share, ACTOR, Some(REASON)).await
    }

    async fn revoked(&self, tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        store::rights_changed(tx, &self.share).await?;
        let mut payload = self.share.told(false);
        if let Some(members) = payload.as_object_mut() {
            members.insert("reason".to_owned(), json!(REASON));
        }
        let subject = self.share.target.audit_subject();
        Ok(AuditEvent { company: Some(self.share.company), action: "share.deleted", subject, payload })
    }
}
