//! Finishes interrupted transfers: removes the former owner's tuple and the new owner's share. Any member's bearer will
//! do: authz accepts the change from any member of the company, and only tuples that must go are removed.

use contract::id::CompanyId;
use service::{ApiError, CompanyCall};
use sqlx::PgPool;
use uuid::Uuid;

use super::row::Ownership;
use crate::App;
use crate::documents::rules::DocumentId;
use crate::shares::row::Swept as ShareRow;

/// Removes what interrupted transfers have left and returns whether there was anything. The former owner's tuple goes
/// last, so that once it is gone, nothing is left.
pub(crate) async fn finish(app: &App, call: &CompanyCall, document: DocumentId) -> Result<bool, ApiError> {
    let (ownerships, shares) = leftovers(&app.core.pool, call.company, document).await?;
    for id in &shares {
        gone(app.two_store().remove::<ShareRow>(call, *id).await)?;
    }
    for id in &ownerships {
        gone(app.two_store().remove::<Ownership>(call, *id).await)?;
    }
    Ok(!ownerships.is_empty() || !shares.is_empty())
}

/// Treats a row that another request has removed meanwhile as removed.
fn gone<T>(removed: Result<T, ApiError>) -> Result<(), ApiError> {
    match removed {
        Ok(_) | Err(ApiError::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Ids of the rows still to be removed: ownerships of anyone but the owner, and shares of the owner.
async fn leftovers(
    pool: &PgPool,
    company: CompanyId,
    document: DocumentId,
) -> Result<(Vec<Uuid>, Vec<Uuid>), ApiError> {
    let ownerships = sqlx::query_scalar!(
        "SELECT o.id FROM docs.ownerships o JOIN docs.documents d ON d.id = o.document_id
         WHERE o.company_id = $1 AND o.document_id = $2 AND o.state <> 'pending' AND o.kc_sub <> d.owner_kc_sub",
        company.as_uuid(),
        document.as_uuid()
    );
    let shares = sqlx::query_scalar!(
        "SELECT s.id FROM docs.shares s JOIN docs.documents d ON d.id = s.document_id
         WHERE s.company_id = $1 AND s.document_id = $2 AND s.state IN ('active', 'revoking')
           AND s.kc_sub = d.owner_kc_sub",
        company.as_uuid(),
        document.as_uuid()
    );
    Ok((ownerships.fetch_all(pool).await?, shares.fetch_all(pool).await?))
}
