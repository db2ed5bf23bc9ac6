//! `docs.document_counts`: the number of documents per company, so that listing all of them does not count rows. Each
//! count is updated in the transaction that changes the document, after the document's row.

use contract::id::CompanyId;
use service::ApiError;
use sqlx::PgConnection;

use super::rules::{GeneralAccess, State, StoredDocument};

/// A document's contribution to each count.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Counted {
    active: i64,
    open: i64,
    trashed: i64,
}

impl Counted {
    fn of(state: State, general_access: GeneralAccess) -> Self {
        let (active, trashed) = match state {
            State::Provisioning => (0, 0),
            State::Active => (1, 0),
            State::Trashed => (0, 1),
        };
        let open = if general_access == GeneralAccess::Restricted { 0 } else { active };
        Self { active, open, trashed }
    }
}

/// Counts a document that has become active. Its general access is still `restricted`.
pub(super) async fn add(conn: &mut PgConnection, company: CompanyId) -> Result<(), ApiError> {
    sqlx::query!(
        "INSERT INTO docs.document_counts AS c(company_id, active, open, trashed) VALUES ($1, 1, 0, 0)
         ON CONFLICT (company_id) DO UPDATE SET active = c.active + 1",
        company.as_uuid()
    )
    .execute(conn)
    .await?;
    Ok(())
}

/// Updates the counts for a document that changes to this state and general access.
///
/// # Errors
/// 500 when the company has no counts; 503 when the database does not answer.
pub(super) async fn change(
    conn: &mut PgConnection,
    document: &StoredDocument,
    state: State,
    general_access: GeneralAccess,
) -> Result<(), ApiError> {
    let before = Counted::of(document.state, document.general_access);
    let after = Counted::of(state, general_access);
    if before == after {
        return Ok(());
    }
    let done = sqlx::query!(
        "UPDATE docs.document_counts SET active = active + $2, open = open + $3, trashed = trashed + $4
         WHERE company_id = $1",
        document.company.as_uuid(),
        after.active - before.active,
        after.open - before.open,
        after.trashed - before.trashed
    );
    if done.execute(conn).await?.rows_affected() == 1 {
        Ok(())
    } else {
        Err(ApiError::internal("a company with documents has no document_counts row"))
    }
}
