//! Shares given or raised to accept a request. They start only while the request is open, under the document's lock.
//! Declining takes the same lock and is refused while such a share is under way, so accepting and declining exclude
//! each other.

use contract::id::CompanyId;
use service::two_store::{Exchange, NewRow};
use service::{ApiError, AuditedTx};
use sqlx::PgConnection;
use uuid::Uuid;

use super::rules::{AccessRequest, Status, decided};
use super::store;
use crate::documents::store::lock_sharing;
use crate::shares::new::NewShare;
use crate::shares::row::{Acted, ChangeRole};

/// A new share for a request.
pub(super) struct Given<'a, const AS_MANAGER: bool> {
    pub(super) request: &'a AccessRequest,
    pub(super) share: NewShare<AS_MANAGER>,
}

impl<const AS_MANAGER: bool> NewRow for Given<'_, AS_MANAGER> {
    type Row = Acted<AS_MANAGER>;

    async fn insert(&self, tx: &mut AuditedTx) -> Result<Uuid, ApiError> {
        check_open(tx.conn(), self.share.share.company, self.request).await?;
        self.share.insert(tx).await
    }
}

/// A role change of an existing share for a request.
#[derive(Clone)]
pub(super) struct Raised<const AS_MANAGER: bool> {
    pub(super) request: AccessRequest,
    pub(super) change: ChangeRole<AS_MANAGER>,
}

impl<const AS_MANAGER: bool> Exchange for Raised<AS_MANAGER> {
    type Row = Acted<AS_MANAGER>;

    async fn begin(&self, row: &Self::Row, tx: &mut AuditedTx) -> Result<bool, ApiError> {
        check_open(tx.conn(), row.0.company, &self.request).await?;
        self.change.begin(row, tx).await
    }

    fn is_under_way(&self, row: &Self::Row) -> bool {
        self.change.is_under_way(row)
    }
}

async fn check_open(
    conn: &mut PgConnection,
    company: CompanyId,
    request: &AccessRequest,
) -> Result<(), ApiError> {
    lock_sharing(&mut *conn, company, request.document_id).await?;
    let found = store::find(conn, company, request.document_id, request.id).await?;
    if found.is_some_and(|found| found.status == Status::Open) { Ok(()) } else { Err(decided()) }
}
