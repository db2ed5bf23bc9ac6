//! Creates shares. The conditions are checked again under the lock of the document or folder, which access changes take
//! as well.

use serde_json::Value;
use service::refusal::conflict;
use service::two_store::NewRow;
use service::{ApiError, AuditedTx};
use uuid::Uuid;

use super::row::Acted;
use super::rules::{MAX_SHARES, Right, Share, Target, is_owner, too_many_shares};
use super::store;
use crate::documents::rules::{State, trashed};
use crate::{documents, folders};

pub(crate) struct NewShare<const AS_MANAGER: bool> {
    pub(crate) share: Share,
    pub(super) right: Right,
}

impl<const AS_MANAGER: bool> NewRow for NewShare<AS_MANAGER> {
    type Row = Acted<AS_MANAGER>;

    async fn insert(&self, tx: &mut AuditedTx) -> Result<Uuid, ApiError> {
        let share = &self.share;
        match share.target {
            Target::Document(_) => self.check_document(tx).await?,
            Target::Folder(id) => {
                let owner = folders::store::lock_active(tx.conn(), share.company, id).await?;
                if share.kc_sub.as_ref().is_some_and(|subject| *subject == owner) {
                    return Err(is_owner());
                }
            }
        }
        let found = store::of_principal(tx.conn(), share.company, share.target, share.principal).await?;
        if let Some((found, state)) = found {
            // An identical share that is not confirmed yet is resumed.
            let resumed = state == "pending" && found.role == share.role && found.kc_sub == share.kc_sub;
            return if resumed { Ok(found.id.as_uuid()) } else { Err(exists()) };
        }
        if store::count(tx.conn(), share.company, share.target).await? >= MAX_SHARES {
            return Err(too_many_shares());
        }
        // The lock keeps others from adding a share meanwhile; the unique index is only a backstop.
        store::insert(tx.conn(), share, "pending").await?;
        Ok(share.id.as_uuid())
    }
}

impl<const AS_MANAGER: bool> NewShare<AS_MANAGER> {
    async fn check_document(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        let share = &self.share;
        let Some(id) = share.target.document() else { return Ok(()) };
        let found = documents::store::lock_sharing(tx.conn(), share.company, id).await?;
        if found.state != State::Active {
            return Err(trashed());
        }
        self.right.check(found.state, found.editors_can_share, found.rights)?;
        if share.kc_sub.as_ref().is_some_and(|subject| subject.as_str() == found.owner) {
            return Err(is_owner());
        }
        Ok(())
    }
}

/// 409 `SHARE_EXISTS`.
fn exists() -> ApiError {
    conflict("SHARE_EXISTS", "already shared with this principal", Value::Null)
}
