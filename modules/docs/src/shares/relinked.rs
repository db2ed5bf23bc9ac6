//! Shares of member rows that org has linked to another login since. A share with a member stands for a tuple of the login
//! that the row had when the share was given: the platform takes tuples of users, positions and groups, not of member rows
//! (module contract, "Grants"). So a share ends with the link that it was given to. It is taken before anything is decided
//! by it:
//!
//! - where it names the caller and the caller's member row is another one ([`settle_caller`]): before each decision about
//!   the document or folder, so that an old login opens nothing on its next request;
//! - where the row has another login ([`settle_principal`], [`take`]): before a share of it is given, changed or
//!   listed, so that a share always speaks of the person whose name it shows.
//!
//! A row without a login keeps its share: the login that comes back finds it, and one that never does is no member of the
//! company. Any member's bearer will do, as for a transfer that broke off: authz takes the change from it, and only what
//! gives nothing any more is taken.

use contract::Subject;
use contract::grants::Tuple;
use contract::id::{CompanyId, MemberId};
use contract::{Principal, principal::PrincipalKind};
use serde_json::json;
use service::clients::org::Found;
use service::two_store::TupleRow;
use service::{ApiError, AuditEvent, AuditedTx, CompanyCall};
use sqlx::{PgConnection, PgExecutor, PgPool};
use uuid::Uuid;

use super::row::Swept;
use super::rules::{Share, ShareId, ShareRole, Shown, Target};
use super::store;
use crate::App;
use crate::documents::rules::DocumentId;
use crate::folders::rules::FolderId;

/// Takes the shares of the target, and of the folders that it lies in, that name the caller by another member row than the
/// caller has.
///
/// # Errors
/// 503 while org, authz or the database does not answer: nothing is decided before.
pub(crate) async fn settle_caller(app: &App, call: &CompanyCall, target: Target) -> Result<(), ApiError> {
    let named = naming(&app.core.pool, call, target).await?;
    if named.is_empty() {
        return Ok(());
    }
    // Without an active row nothing opens to the caller as a member, and the row may be back tomorrow.
    let Some(caller) = app.org.member_context_if_any(call).await? else { return Ok(()) };
    for (id, member) in named {
        if member != caller.member {
            take(app, call, id).await?;
        }
    }
    Ok(())
}

/// Takes what stands between a principal and a share with the person behind it now: the target's shares of its member row
/// under another login, and of its login under another member row.
///
/// # Errors
/// As [`settle_caller`].
pub(crate) async fn settle_principal(
    app: &App,
    call: &CompanyCall,
    target: Target,
    principal: Principal,
) -> Result<(), ApiError> {
    if principal.kind() != PrincipalKind::Member {
        return Ok(());
    }
    let found = app.org.lookup(call.company, &principal.into(), &call.correlation).await?;
    let Some((member, login)) = linked(&found, principal) else { return Ok(()) };
    for share in store::list(&app.core.pool, call.company, target).await? {
        if share.principal.member().is_some() && is_relinked(&share, member, login) {
            take(app, call, share.id).await?;
        }
    }
    Ok(())
}

/// Whether a share of a member row stands for another login than org says the row has.
pub(crate) fn is_of_another_login(share: &Share, found: &Found) -> bool {
    linked(found, share.principal).is_some_and(|(member, login)| is_relinked(share, member, login))
}

/// One of both is this link's, and the other is not.
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

/// Takes one such share.
///
/// # Errors
/// As [`settle_caller`].
pub(crate) async fn take(app: &App, call: &CompanyCall, id: ShareId) -> Result<(), ApiError> {
    match app.two_store().remove::<Relinked>(call, id.as_uuid()).await {
        Ok(_) | Err(ApiError::NotFound(_)) => Ok(()),
        // Fail closed: a change of it is under way, and is there in a moment.
        Err(ApiError::Conflict { .. }) => Err(ApiError::unavailable("postgres")),
        Err(error) => Err(error),
    }
}

/// Member shares of the target, and of the folders that it lies in, whose tuple names the caller. It runs before every
/// decision, so each of its parts reads the shares of one document or one folder by their index, whatever the planner knows.
async fn naming(
    pool: &PgPool,
    call: &CompanyCall,
    target: Target,
) -> Result<Vec<(ShareId, MemberId)>, ApiError> {
    let rows = sqlx::query!(
        r#"SELECT s.id AS "id!", s.member_id AS "member_id!" FROM docs.shares s
           WHERE s.document_id = $3 AND s.company_id = $1 AND s.kc_sub = $2 AND s.member_id IS NOT NULL
             AND s.state <> 'pending'
           UNION ALL
           SELECT s.id, s.member_id FROM docs.folder_ancestors a
           CROSS JOIN LATERAL (SELECT s.id, s.member_id FROM docs.shares s
             WHERE s.folder_id = a.ancestor_id AND s.company_id = $1 AND s.kc_sub = $2 AND s.member_id IS NOT NULL
               AND s.state <> 'pending' OFFSET 0) AS s
           WHERE a.folder_id = coalesce($4, (SELECT d.folder_id FROM docs.documents d WHERE d.id = $3))"#,
        call.company.as_uuid(),
        call.subject.as_str(),
        target.document().map(DocumentId::as_uuid),
        target.folder().map(FolderId::as_uuid)
    );
    let rows = rows.fetch_all(pool).await?;
    Ok(rows.into_iter().map(|row| (row.id.into(), row.member_id.into())).collect())
}

/// A share that is taken because its link is gone. Where the same login has a share of the same target under the member
/// row that it has now, that one's tuple stays.
struct Relinked {
    share: Share,
    kept: Option<ShareRole>,
}

/// What another share of the same target gives the same login.
async fn kept(executor: impl PgExecutor<'_>, share: &Share) -> Result<Option<ShareRole>, ApiError> {
    let found = sqlx::query_scalar!(
        "SELECT role FROM docs.shares
         WHERE company_id = $1 AND (document_id = $2 OR folder_id = $3) AND kc_sub = $4 AND id <> $5
           AND state <> 'pending' LIMIT 1",
        share.company.as_uuid(),
        share.target.document().map(DocumentId::as_uuid),
        share.target.folder().map(FolderId::as_uuid),
        share.kc_sub.as_ref().map(Subject::as_str),
        share.id.as_uuid()
    );
    Ok(found.fetch_optional(executor).await?.as_deref().map(ShareRole::of_word).transpose()?)
}

impl TupleRow for Relinked {
    const TABLE: &'static str = "docs.shares";
    const NOUN: &'static str = "share";
    type Shown = Shown;

    async fn find(conn: &mut PgConnection, company: CompanyId, id: Uuid) -> Result<Option<Self>, ApiError> {
        let Some(share) = store::find(&mut *conn, company, id.into()).await? else { return Ok(None) };
        let kept = kept(conn, &share).await?;
        Ok(Some(Self { share, kept }))
    }

    fn tuples(&self) -> Vec<Tuple> {
        Swept::from_share(&self.share).tuples()
    }

    fn removed_tuples(&self) -> Vec<Tuple> {
        let kept = |tuple: &Tuple| self.kept.is_some_and(|role| tuple.relation == role.word());
        let mut tuples = Swept::from_share(&self.share).removed_tuples();
        tuples.retain(|tuple| !kept(tuple));
        tuples
    }

    fn shown(&self) -> Shown {
        self.share.clone().shown(None)
    }

    async fn granted(&self, _tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        Err(ApiError::internal("a share of a link that is gone is not given"))
    }

    async fn revoked(&self, _tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        let mut payload = self.share.told(false);
        if let Some(members) = payload.as_object_mut() {
            members.insert("reason".to_owned(), json!("MEMBER_RELINKED"));
        }
        let subject = self.share.target.audit_subject();
        Ok(AuditEvent { company: Some(self.share.company), action: "share.deleted", subject, payload })
    }
}
