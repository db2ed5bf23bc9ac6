//! Computes the rank that shares, folders and general access give a caller, from the module's own index. The tuples in
//! authz are the authority for opening a document; the index only feeds lists. A list claims no less access than
//! exists: a share counts from its confirmation until its removal is confirmed. It claims no more where that can be
//! known: during a role change a share counts only if the role is raised, because then the new tuple is granted before
//! the old one is removed. A document that is being moved counts as in its old folder until the move is confirmed.

use std::collections::HashMap;

use service::clients::org::MemberContext;
use service::{ApiError, CompanyCall};
use sqlx::PgExecutor;
use uuid::Uuid;

use crate::documents::rules::{DocumentId, Looker};

/// The rank ([`crate::documents::rules::Role::of_rank`]) that each of these documents gives the caller. Documents that
/// give none may be absent.
pub(crate) async fn ranks(
    executor: impl PgExecutor<'_>,
    call: &CompanyCall,
    looker: &Looker<'_>,
    documents: &[DocumentId],
) -> Result<HashMap<DocumentId, i32>, ApiError> {
    if looker.member.is_none() || documents.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<Uuid> = documents.iter().map(|id| id.as_uuid()).collect();
    let (member, positions, groups) = MemberContext::columns(looker.member);
    let rows = sqlx::query!(
        r#"SELECT d.id, greatest(
             CASE d.general_access WHEN 'company_edit' THEN 3 WHEN 'company_view' THEN 1 ELSE 0 END,
             (SELECT max(CASE s.role WHEN 'editor' THEN 3 WHEN 'commenter' THEN 2 ELSE 1 END) FROM docs.shares s
              WHERE s.document_id = d.id AND s.state <> 'pending'
                AND (s.next_role IS NULL OR s.role = 'viewer' OR s.next_role = 'editor')
                AND ((s.member_id = $4 AND s.kc_sub = $3) OR s.position_id = ANY($5) OR s.group_id = ANY($6))),
             (SELECT max(CASE s.role WHEN 'editor' THEN 3 WHEN 'commenter' THEN 2 ELSE 1 END)
              FROM docs.folder_ancestors a JOIN docs.shares s ON s.folder_id = a.ancestor_id
              WHERE a.folder_id = d.folder_id AND s.state <> 'pending'
                AND (s.next_role IS NULL OR s.role = 'viewer' OR s.next_role = 'editor')
                AND ((s.member_id = $4 AND s.kc_sub = $3) OR s.position_id = ANY($5) OR s.group_id = ANY($6))),
             (SELECT max(3) FROM docs.folder_ancestors a JOIN docs.folders f ON f.id = a.ancestor_id
              WHERE a.folder_id = d.folder_id AND f.owner_kc_sub = $3 AND f.state <> 'pending')) AS "rank!"
           FROM docs.documents d WHERE d.company_id = $1 AND d.id = ANY($2)"#,
        call.company.as_uuid(),
        &ids,
        looker.subject.as_str(),
        member,
        &positions,
        &groups
    )
    .fetch_all(executor)
    .await?;
    Ok(rows.into_iter().map(|row| (DocumentId::from(row.id), row.rank)).collect())
}
