//! `docs.access_requests`.

use contract::Subject;
use contract::id::{CompanyId, MemberId};
use contract::page::{Page, PageRequest};
use serde_json::{Value, json};
use service::db::on_constraint;
use service::refusal::conflict;
use service::{ApiError, AuditEvent, AuditedTx, CompanyTx, page};
use sqlx::{PgExecutor, PgPool};
use time::OffsetDateTime;
use uuid::Uuid;

use super::rules::{ACCEPTED, AccessRequest, AccessRequestId, RequestBody, Status, relinked};
use crate::admission::Admitted;
use crate::documents::rules::DocumentId;
use crate::shares::rules::{Share, ShareRole};

struct Row {
    id: Uuid,
    document_id: Uuid,
    member_id: Uuid,
    role: String,
    note: String,
    state: String,
    created_at: OffsetDateTime,
    decided_at: Option<OffsetDateTime>,
    decided_by: Option<String>,
    total: i64,
}

impl Row {
    fn request(self) -> Result<AccessRequest, ApiError> {
        Ok(AccessRequest {
            id: self.id.into(),
            document_id: self.document_id.into(),
            member_id: self.member_id.into(),
            display_name: None,
            role: ShareRole::of_word(&self.role)?,
            note: self.note,
            status: Status::of_word(&self.state)?,
            created_at: self.created_at.into(),
            decided_at: self.decided_at.map(Into::into),
            decided_by: self.decided_by,
        })
    }
}

/// Adds a request.
///
/// # Errors
/// 409 `ACCESS_REQUEST_OPEN` when the member has an open one.
pub(super) async fn add(
    tx: &mut CompanyTx,
    document: DocumentId,
    member: MemberId,
    body: &RequestBody,
) -> Result<AccessRequest, ApiError> {
    let (company, actor) = (tx.company().as_uuid(), tx.actor().to_owned());
    let row = sqlx::query_as!(
        Row,
        r#"INSERT INTO docs.access_requests(id, company_id, document_id, member_id, kc_sub, role, note)
           VALUES ($1, $2, $3, $4, $5, $6, $7)
           RETURNING id, document_id, member_id, role, note, state, created_at, decided_at, decided_by,
             1::bigint AS "total!""#,
        AccessRequestId::mint().as_uuid(),
        company,
        document.as_uuid(),
        member.as_uuid(),
        actor,
        body.role.word(),
        body.note
    )
    .fetch_one(tx.conn())
    .await
    .map_err(|error| {
        on_constraint(error, "access_requests_open", || {
            conflict("ACCESS_REQUEST_OPEN", "the member already has an open request", Value::Null)
        })
    })?;
    row.request()
}

/// Lists one page, oldest first, optionally of one status only.
pub(super) async fn list(
    pool: &PgPool,
    admitted: &Admitted,
    status: Option<Status>,
    request: PageRequest,
) -> Result<Page<AccessRequest>, ApiError> {
    let rows = |limit: i64, offset: i64| {
        sqlx::query_as!(
            Row,
            r#"SELECT id, document_id, member_id, role, note, state, created_at, decided_at, decided_by,
                 count(*) OVER () AS "total!"
               FROM docs.access_requests
               WHERE company_id = $1 AND document_id = $2 AND ($3::text IS NULL OR state = $3)
               ORDER BY created_at, id LIMIT $4 OFFSET $5"#,
            admitted.company.as_uuid(),
            admitted.gist.id.as_uuid(),
            status.map(Status::word),
            limit,
            offset
        )
        .fetch_all(pool)
    };
    page::load(request, rows, |row| row.total, Row::request).await
}

/// Finds a request for this document.
pub(super) async fn find(
    executor: impl PgExecutor<'_>,
    company: CompanyId,
    document: DocumentId,
    id: AccessRequestId,
) -> Result<Option<AccessRequest>, ApiError> {
    let row = sqlx::query_as!(
        Row,
        r#"SELECT id, document_id, member_id, role, note, state, created_at, decided_at, decided_by, 1::bigint AS "total!"
           FROM docs.access_requests WHERE company_id = $1 AND document_id = $2 AND id = $3"#,
        company.as_uuid(),
        document.as_uuid(),
        id.as_uuid()
    );
    row.fetch_optional(executor).await?.map(Row::request).transpose()
}

/// Checks that a login made this request.
///
/// # Errors
/// 409 `MEMBER_RELINKED` when the member row had another login.
pub(super) async fn check_login(
    executor: impl PgExecutor<'_>,
    company: CompanyId,
    id: AccessRequestId,
    login: Option<&Subject>,
) -> Result<(), ApiError> {
    let found = sqlx::query_scalar!(
        "SELECT kc_sub FROM docs.access_requests WHERE company_id = $1 AND id = $2",
        company.as_uuid(),
        id.as_uuid()
    );
    let asked = found.fetch_optional(executor).await?;
    if asked.as_deref() == login.map(Subject::as_str) { Ok(()) } else { Err(relinked()) }
}

/// Declines an open request that the member row's former login made, and returns its id: no share can meet it.
pub(super) async fn decline_former(
    tx: &mut CompanyTx,
    document: DocumentId,
    member: MemberId,
) -> Result<Option<AccessRequestId>, ApiError> {
    let (company, actor) = (tx.company().as_uuid(), tx.actor().to_owned());
    let declined = sqlx::query_scalar!(
        "UPDATE docs.access_requests SET state = 'declined', decided_at = now(), decided_by = $4
         WHERE company_id = $1 AND document_id = $2 AND member_id = $3 AND state = 'open' AND kc_sub <> $4
         RETURNING id",
        company,
        document.as_uuid(),
        member.as_uuid(),
        actor
    );
    Ok(declined.fetch_optional(tx.conn()).await?.map(AccessRequestId::from))
}

/// Decides an open request; returns false when it is not open.
pub(super) async fn decide(
    tx: &mut CompanyTx,
    document: DocumentId,
    id: AccessRequestId,
    status: Status,
) -> Result<bool, ApiError> {
    let (company, actor) = (tx.company().as_uuid(), tx.actor().to_owned());
    let decided = sqlx::query!(
        "UPDATE docs.access_requests SET state = $4, decided_at = now(), decided_by = $5
         WHERE company_id = $1 AND document_id = $2 AND id = $3 AND state = 'open'",
        company,
        document.as_uuid(),
        id.as_uuid(),
        status.word(),
        actor
    )
    .execute(tx.conn())
    .await?;
    Ok(decided.rows_affected() == 1)
}

/// Whether a share that meets the request is being given or changed. The caller holds the document's lock.
pub(super) async fn is_being_met(tx: &mut CompanyTx, id: AccessRequestId) -> Result<bool, ApiError> {
    let company = tx.company().as_uuid();
    let found = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM docs.access_requests r
             JOIN docs.shares s ON s.document_id = r.document_id AND s.member_id = r.member_id AND s.kc_sub = r.kc_sub
             WHERE r.company_id = $1 AND r.id = $2 AND s.state IN ('pending', 'exchanging')
               AND CASE coalesce(s.next_role, s.role) WHEN 'editor' THEN 3 WHEN 'commenter' THEN 2 ELSE 1 END
                 >= CASE r.role WHEN 'editor' THEN 3 WHEN 'commenter' THEN 2 ELSE 1 END) AS "found!""#,
        company,
        id.as_uuid()
    );
    Ok(found.fetch_one(tx.conn()).await?)
}

/// Accepts the open requests of the share's member and login for this role or a lower one, with an audit row for each.
pub(crate) async fn meet(
    tx: &mut AuditedTx,
    share: &Share,
    role: ShareRole,
    as_manager: bool,
) -> Result<(), ApiError> {
    let (Some(document), Some(member)) = (share.target.document(), share.principal.member()) else {
        return Ok(());
    };
    let met: Vec<String> =
        ShareRole::ALL.iter().filter(|asked| **asked <= role).map(|asked| asked.word().to_owned()).collect();
    let actor = tx.actor().to_owned();
    let ids = sqlx::query_scalar!(
        "UPDATE docs.access_requests SET state = 'accepted', decided_at = now(), decided_by = $4
         WHERE company_id = $1 AND document_id = $2 AND member_id = $3 AND state = 'open' AND role = ANY($5)
           AND kc_sub = $6
         RETURNING id",
        share.company.as_uuid(),
        document.as_uuid(),
        member.as_uuid(),
        actor,
        &met,
        share.kc_sub.as_ref().map(Subject::as_str)
    )
    .fetch_all(tx.conn())
    .await?;
    for id in ids {
        let mut payload = json!({ "accessRequestId": id, "shareId": share.id });
        if let (true, Some(members)) = (as_manager, payload.as_object_mut()) {
            members.insert("asManager".to_owned(), true.into());
        }
        tx.record(&AuditEvent {
            company: Some(share.company),
            action: ACCEPTED,
            subject: share.target.audit_subject(),
            payload,
        })
        .await?;
    }
    Ok(())
}
