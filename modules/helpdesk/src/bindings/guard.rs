//! Keeps an administrator who can act: a removal is refused unless a remaining binding's tuple exists and authz lets a
//! login behind it into the company now. The check runs while the company's guard row is locked, so that two concurrent
//! removals cannot each rely on the binding that the other removes.

use std::time::Duration;

use contract::grants::{MAX_TUPLES, Tuple};
use contract::id::CompanyId;
use contract::{CorrelationId, Principal, Subject};
use futures_util::future::join_all;
use service::clients::authz::AuthzClient;
use service::clients::org::{Found, OrgClient, Wanted};
use service::two_store::{Guard, TupleRow};
use service::{ApiError, AuditedTx};

use super::row::BindingRow;
use super::rules::{BoundTier, StoredBinding};
use super::store;

/// How long the look-up of the tuples, and then that of the logins, may take while the guard row is locked.
const BUDGET: Duration = Duration::from_millis(500);

/// Logins that authz is asked about at once.
const AT_ONCE: usize = 8;

/// The guard of one removal.
pub(super) struct LastAdministrator<'a> {
    pub(super) authz: &'a AuthzClient,
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
        let left = left.into_iter().map(BindingRow::of).collect::<Result<_, _>>()?;
        let left = within("authz", self.granted(left)).await?;
        let is_kept = within("org", self.is_any_effective(removed, &left)).await?;
        if is_kept { Ok(()) } else { Err(store::last_administrator("vacant")) }
    }
}

impl LastAdministrator<'_> {
    /// Whether any of these bindings makes a login an administrator that authz admits now.
    async fn is_any_effective(&self, removed: &StoredBinding, left: &[BindingRow]) -> Result<bool, ApiError> {
        for wanted in Wanted::parts(left.iter().map(|row| row.stored.principal)) {
            let found = self.org.lookup_with_logins(removed.company, &wanted, self.correlation).await?;
            let behind: Vec<&Subject> = left.iter().flat_map(|row| logins(&row.stored, &found)).collect();
            for some in behind.chunks(AT_ONCE) {
                let asked = some.iter().map(|login| self.may_act(removed.company, login));
                for answer in join_all(asked).await {
                    if answer? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// Whether authz lets the login into the company now.
    async fn may_act(&self, company: CompanyId, login: &Subject) -> Result<bool, ApiError> {
        Ok(self.authz.company_of(company, login, self.correlation).await?.held)
    }

    /// Keeps the bindings whose tuple exists; one whose tuple was revoked grants nothing.
    async fn granted(&self, rows: Vec<BindingRow>) -> Result<Vec<BindingRow>, ApiError> {
        let mut granted = Vec::with_capacity(rows.len());
        for part in rows.chunks(MAX_TUPLES) {
            let tuples: Vec<Tuple> = part.iter().flat_map(TupleRow::tuples).collect();
            let standing = self.authz.standing(&tuples, self.correlation).await?;
            granted.extend(
                part.iter().zip(standing).filter(|(_, is_standing)| *is_standing).map(|(row, _)| row.clone()),
            );
        }
        Ok(granted)
    }
}

async fn within<T>(
    dependency: &'static str,
    work: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    tokio::time::timeout(BUDGET, work).await.map_err(|_| ApiError::unavailable(dependency))?
}

/// The logins behind a binding: that of an active member who is still linked to the subject that the tuple names, of a
/// position's holder, or of an active group's members.
fn logins<'a>(binding: &'a StoredBinding, found: &'a Found) -> Vec<&'a Subject> {
    match binding.principal {
        Principal::Member(id) => {
            let is_bound = |subject: &&Subject| Some(subject.as_str()) == binding.kc_sub.as_deref();
            let members = found.members.iter().filter(|member| member.id == id && member.is_active);
            members.filter_map(|member| member.kc_sub.as_ref()).filter(is_bound).collect()
        }
        Principal::Position(id) => found
            .positions
            .iter()
            .filter(|position| position.id == id)
            .flat_map(|position| &position.logins)
            .collect(),
        Principal::Group(id) => {
            let groups = found.groups.iter().filter(|group| group.id == id && group.is_active);
            groups.flat_map(|group| &group.logins).collect()
        }
    }
}
