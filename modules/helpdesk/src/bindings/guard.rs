//! Keeps an administrator who can act: a removal is refused unless at least one remaining binding currently has a
//! member with a login. The check runs while the company's guard row is locked, so that two concurrent removals cannot
//! each rely on the binding that the other removes.

use std::time::Duration;

use contract::{CorrelationId, Principal};
use service::clients::org::{Found, OrgClient};
use service::two_store::Guard;
use service::{ApiError, AuditedTx};

use super::row::BindingRow;
use super::rules::{BoundTier, StoredBinding};
use super::store;
use crate::tickets::names::parts;

/// How long the look-up in org may take while the guard row is locked.
const BUDGET: Duration = Duration::from_millis(500);

/// The guard of one removal.
pub(super) struct LastAdministrator<'a> {
    pub(super) org: &'a OrgClient,
    pub(super) correlation: &'a CorrelationId,
}

impl Guard<BindingRow> for LastAdministrator<'_> {
    async fn admit(&self, row: &BindingRow, tx: &mut AuditedTx) -> Result<(), ApiError> {
        let removed = &row.stored;
        if removed.tier != BoundTier::Admin {
            return Ok(());
        }
        let left = store::other_administrators(tx, removed.company, removed.id.as_uuid()).await?;
        let is_kept = tokio::time::timeout(BUDGET, self.is_any_effective(removed, &left)).await;
        let is_kept = is_kept.map_err(|_| ApiError::unavailable("org"))??;
        if is_kept { Ok(()) } else { Err(store::last_administrator("vacant")) }
    }
}

impl LastAdministrator<'_> {
    /// Whether a member with a login is behind any of these bindings now.
    async fn is_any_effective(
        &self,
        removed: &StoredBinding,
        left: &[StoredBinding],
    ) -> Result<bool, ApiError> {
        for wanted in parts(left.iter().map(|binding| binding.principal)) {
            let found = self.org.lookup(removed.company, &wanted, self.correlation).await?;
            if left.iter().any(|binding| is_effective(binding, &found)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Whether a binding has an active member who is still linked to the subject that the tuple names, a position whose
/// holder has a login, or an active group with a member who has one.
fn is_effective(binding: &StoredBinding, found: &Found) -> bool {
    match binding.principal {
        Principal::Member(id) => {
            let subject = |kc_sub: &contract::Subject| Some(kc_sub.as_str()) == binding.kc_sub.as_deref();
            let mut members = found.members.iter().filter(|member| member.id == id && member.is_active);
            members.any(|member| member.kc_sub.as_ref().is_some_and(subject))
        }
        Principal::Position(id) => found.positions.iter().any(|found| found.id == id && found.has_login),
        Principal::Group(id) => {
            found.groups.iter().any(|group| group.id == id && group.is_active && group.has_login)
        }
    }
}
