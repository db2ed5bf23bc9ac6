//! Implements `TupleRow` for shares. A share stands for one tuple and, while its role changes, for a second one.

use contract::Principal;
use contract::grants::Tuple;
use contract::id::CompanyId;
use serde_json::{Value, json};
use service::two_store::{Exchange, Guard, Next, TupleRow};
use service::{ApiError, AuditEvent, AuditedTx};
use sqlx::PgConnection;
use uuid::Uuid;

use super::rules::{Level, Right, Share, ShareRole, Shown, Target};
use super::store;
use crate::{access_requests, documents, folders};

/// A share that is being given, changed or removed; `AS_MANAGER` when a manager shares what someone else owns.
#[derive(Debug)]
pub struct Acted<const AS_MANAGER: bool>(pub(crate) Share);

/// A share that the sweep settles.
pub type Swept = Acted<false>;

impl Swept {
    pub(crate) fn from_share(share: &Share) -> Self {
        Self(share.clone())
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
        Ok(store::find(conn, company, id.into()).await?.map(Self))
    }

    fn tuples(&self) -> Vec<Tuple> {
        self.tuple(self.0.role).into_iter().collect()
    }

    /// The tuples of all roles, so that leftovers of an interrupted exchange are removed as well.
    fn removed_tuples(&self) -> Vec<Tuple> {
        ShareRole::ALL.iter().filter_map(|role| self.tuple(*role)).collect()
    }

    fn next(&self) -> Option<Next> {
        let role = self.0.next_role?;
        Some(Next { tuples: self.tuple(role).into_iter().collect(), gains: role > self.0.role })
    }

    fn shown(&self) -> Shown {
        self.0.clone().shown(None)
    }

    async fn granted(&self, tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        access_requests::store::meet(tx, &self.0, self.0.role).await?;
        Ok(self.event("share.created", self.0.told(AS_MANAGER)))
    }

    async fn revoked(&self, _tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        Ok(self.event("share.deleted", self.0.told(AS_MANAGER)))
    }

    async fn exchanged(&self, tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        let role = self.0.next_role.ok_or_else(|| ApiError::internal("a role change without a next role"))?;
        store::set_role(tx.conn(), &self.0, role).await?;
        access_requests::store::meet(tx, &self.0, role).await?;
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
        store::set_next_role(tx.conn(), &row.0, self.role).await?;
        Ok(true)
    }

    fn is_under_way(&self, row: &Self::Row) -> bool {
        row.0.next_role == Some(self.role)
    }
}

impl<const AS_MANAGER: bool> Guard<Acted<AS_MANAGER>> for Right {
    /// Locks the document of an editor's change, as access changes do.
    async fn admit(&self, row: &Acted<AS_MANAGER>, tx: &mut AuditedTx) -> Result<(), ApiError> {
        let (Level::Own(_), Target::Document(document)) = (self.level, row.0.target) else { return Ok(()) };
        let found = documents::store::lock_sharing(tx.conn(), row.0.company, document).await?;
        self.check(found.state, found.editors_can_share, found.general_access)
    }
}
