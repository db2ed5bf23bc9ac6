//! Implements `TupleRow` for shares. A share stands for one tuple and, while its role changes, for a second one.

use contract::Principal;
use contract::grants::Tuple;
use contract::id::CompanyId;
use contract::principal::PrincipalKind;
use serde_json::{Value, json};
use service::two_store::{BrokenOff, Exchange, Guard, Next, TupleRow};
use service::{ApiError, AuditEvent, AuditedTx};
use sqlx::PgConnection;
use uuid::Uuid;

use super::rules::{Right, Share, ShareRole, Shown, Target};
use super::store;
use crate::{access_requests, documents, folders};

/// A share that is being given, changed or removed; `AS_MANAGER` when a manager shares what someone else owns.
#[derive(Debug)]
pub struct Acted<const AS_MANAGER: bool>(
    pub(crate) Share,
    /// The role that another share of the same target gives the same login.
    pub(super) Option<ShareRole>,
);

/// A share that the sweep settles.
pub type Swept = Acted<false>;

impl Swept {
    pub(crate) fn from_share(share: &Share) -> Self {
        Self(share.clone(), None)
    }
}

impl<const AS_MANAGER: bool> Acted<AS_MANAGER> {
    fn tuple(&self, role: ShareRole) -> Option<Tuple> {
        let share = &self.0;
        let object = match share.target {
            Target::Document(id) => documents::new::object(id),
            Target::Folder(id) => folders::row::object(id),
        };
        Some(match share.principal {
            Principal::Member(_) => Tuple::user(object, role.word(), share.kc_sub.as_ref()?),
            Principal::Position(id) => Tuple::position(object, role.word(), id),
            Principal::Group(id) => Tuple::group(object, role.word(), id),
        })
    }

    fn event(&self, action: &'static str, payload: Value) -> AuditEvent {
        let share = &self.0;
        AuditEvent { company: Some(share.company), action, subject: share.target.audit_subject(), payload }
    }
}

impl<const AS_MANAGER: bool> TupleRow for Acted<AS_MANAGER> {
    const TABLE: &'static str = "docs.shares";
    const NOUN: &'static str = "share";
    const PENDING_MAY_BE_REMOVED: bool = true;
    type Shown = Shown;

    async fn find(conn: &mut PgConnection, company: CompanyId, id: Uuid) -> Result<Option<Self>, ApiError> {
        let Some(share) = store::find(&mut *conn, company, id.into()).await? else { return Ok(None) };
        let kept = store::kept(conn, &share).await?;
        Ok(Some(Self(share, kept)))
    }

    fn tuples(&self) -> Vec<Tuple> {
        self.tuple(self.0.role).into_iter().collect()
    }

    /// The tuples of all roles, so that leftovers of an interrupted exchange are removed as well.
    fn removed_tuples(&self) -> Vec<Tuple> {
        let gone = ShareRole::ALL.iter().filter(|role| self.1 != Some(**role));
        gone.filter_map(|role| self.tuple(*role)).collect()
    }

    /// authz removes only users' tuples without a member's bearer; the next request about a document removes those of
    /// positions and groups (`removals.rs`).
    fn broken_off(&self) -> BrokenOff {
        if self.0.principal.kind() == PrincipalKind::Member { BrokenOff::Finished } else { BrokenOff::Left }
    }

    fn removed_by(&self) -> Option<&str> {
        self.0.revoked_by.as_deref()
    }

    fn next(&self) -> Option<Next> {
        let role = self.0.next_role?;
        Some(Next { tuples: self.tuple(role).into_iter().collect(), gains: role > self.0.role })
    }

    fn shown(&self) -> Shown {
        self.0.clone().shown(None)
    }

    async fn lock(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        match self.0.target {
            Target::Document(id) => documents::store::lock_row(tx.conn(), self.0.company, id).await,
            Target::Folder(_) => Ok(()),
        }
    }

    async fn granted(&self, tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        access_requests::store::meet(tx, &self.0, self.0.role, AS_MANAGER).await?;
        Ok(self.event("share.created", self.0.told(AS_MANAGER)))
    }

    async fn revoking(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        store::hold_target(tx, &self.0).await?;
        self.rejecting(tx).await
    }

    async fn rejecting(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        let actor = tx.actor().to_owned();
        store::set_revoked(tx, &self.0, &actor, None).await
    }

    async fn revoked(&self, tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        store::rights_changed(tx, &self.0).await?;
        let mut told = self.0.told(AS_MANAGER);
        if let (Some(reason), Some(members)) = (&self.0.revoked_for, told.as_object_mut()) {
            members.insert("reason".to_owned(), json!(reason));
        }
        Ok(self.event("share.deleted", told))
    }

    async fn exchanged(&self, tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        let role = self.0.next_role.ok_or_else(|| ApiError::internal("a role change without a next role"))?;
        store::set_role(tx.conn(), &self.0, role).await?;
        store::rights_changed(tx, &self.0).await?;
        access_requests::store::meet(tx, &self.0, role, AS_MANAGER).await?;
        let mut told = self.0.told(AS_MANAGER);
        if let Some(members) = told.as_object_mut() {
            members.insert("role".to_owned(), json!({ "from": self.0.role, "to": role }));
        }
        Ok(self.event("share.role_changed", told))
    }

    async fn not_exchanged(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        store::set_role(tx.conn(), &self.0, self.0.role).await
    }
}

/// A change of a share's role.
#[derive(Clone)]
pub(crate) struct ChangeRole<const AS_MANAGER: bool> {
    pub(crate) role: ShareRole,
    pub(crate) right: Right,
}

impl<const AS_MANAGER: bool> Exchange for ChangeRole<AS_MANAGER> {
    type Row = Acted<AS_MANAGER>;

    async fn begin(&self, row: &Self::Row, tx: &mut AuditedTx) -> Result<bool, ApiError> {
        if row.0.role == self.role {
            return Ok(false);
        }
        self.right.admit(row, tx).await?;
        store::hold_target(tx, &row.0).await?;
        store::set_next_role(tx.conn(), &row.0, self.role).await?;
        Ok(true)
    }

    fn is_under_way(&self, row: &Self::Row) -> bool {
        row.0.next_role == Some(self.role)
    }
}

/// Finishes an interrupted change to this role; does nothing if the share has been settled since it was read.
#[derive(Clone)]
pub(super) struct FinishRole<const AS_MANAGER: bool>(pub(super) ShareRole);

impl<const AS_MANAGER: bool> Exchange for FinishRole<AS_MANAGER> {
    type Row = Acted<AS_MANAGER>;

    async fn begin(&self, _row: &Self::Row, _tx: &mut AuditedTx) -> Result<bool, ApiError> {
        Ok(false)
    }

    fn is_under_way(&self, row: &Self::Row) -> bool {
        row.0.next_role == Some(self.0)
    }
}

impl<const AS_MANAGER: bool> Guard<Acted<AS_MANAGER>> for Right {
    /// Locks the document, as access changes do.
    async fn admit(&self, row: &Acted<AS_MANAGER>, tx: &mut AuditedTx) -> Result<(), ApiError> {
        let (Some(_), Target::Document(document)) = (self.decided, row.0.target) else { return Ok(()) };
        let found = documents::store::lock_sharing(tx.conn(), row.0.company, document).await?;
        self.check(found.state, found.editors_can_share, found.rights)
    }
}
