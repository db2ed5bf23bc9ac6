//! Reads the companies of one subject.

use contract::Subject;
use contract::id::CompanyId;
use serde::Serialize;
use service::Reads;

/// `OrgMeCompany` of the specification.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrgMeCompany {
    id: CompanyId,
    code: String,
    name: String,
    is_active: bool,
}

/// Lists the active companies in which the subject is an active member, by code; none if the subject's account may not
/// act. The view `identity.subject_facts` has the account's state, so no other service is asked.
pub(super) async fn of_subject(reads: &Reads, subject: &Subject) -> sqlx::Result<Vec<OrgMeCompany>> {
    let rows = sqlx::query!(
        r#"SELECT c.id, c.code, c.name, c.is_active
             FROM org.members m JOIN org.units c ON c.id = m.company_id
            WHERE m.user_id = $1 AND m.is_active AND c.is_active AND EXISTS (
              SELECT FROM identity.subject_facts f
               WHERE f.kc_sub = m.user_id AND f.idp_enabled AND f.lifecycle = 'active')
            ORDER BY c.code COLLATE "C", c.id"#,
        subject.as_str()
    )
    .fetch_all(reads)
    .await?;
    Ok(rows
        .into_iter()
        .map(|row| OrgMeCompany {
            id: row.id.into(),
            code: row.code,
            name: row.name,
            is_active: row.is_active,
        })
        .collect())
}
