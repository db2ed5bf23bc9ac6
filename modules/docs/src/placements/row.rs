//! Implements `TupleRow` for placements.

use contract::grants::Tuple;
use contract::id::CompanyId;
use serde_json::json;
use service::refusal::conflict;
use service::two_store::{BrokenOff, Exchange, Guard, NewRow, Next, TupleRow};
use service::{ApiError, AuditEvent, AuditedTx};
use sqlx::PgConnection;
use uuid::Uuid;

use super::rules::{Child, check_size};
use super::store;
use crate::admission::rights_changed;
use crate::documents::rights::{self, Rights};
use crate::documents::rules::{State, trashed};
use crate::documents::store as documents;
use crate::folders::row::object;
use crate::folders::rules::FolderId;
use crate::folders::store as folders;

/// A document or folder in a folder.
#[derive(Clone, Debug)]
pub struct Placement {
    pub(crate) id: Uuid,
    pub(crate) company: CompanyId,
    pub(crate) child: Child,
    pub(crate) parent: FolderId,
    /// The folder that it is moving to, while it moves.
    pub(crate) next: Option<FolderId>,
    pub(crate) state: String,
    /// Who takes it out of its folder or moves it to the next one, while that is under way.
    pub(crate) moved_by: Option<String>,
    /// Whether a manager of what someone else owns made the move that is under way, or else the latest one.
    pub(crate) moved_as_manager: bool,
}

impl Placement {
    /// A placement whose tuple exists.
    pub(crate) fn active(company: CompanyId, child: Child, parent: FolderId) -> Self {
        Self {
            id: Uuid::now_v7(),
            company,
            child,
            parent,
            next: None,
            state: "active".to_owned(),
            moved_by: None,
            moved_as_manager: false,
        }
    }
}

/// A placement that is being made, changed or ended; `AS_MANAGER` when a manager moves what someone else owns.
#[derive(Debug)]
pub struct Moved<const AS_MANAGER: bool>(pub(crate) Placement);

/// A placement that the sweep settles.
pub type Swept = Moved<false>;

impl<const AS_MANAGER: bool> Moved<AS_MANAGER> {
    fn tuple(&self, parent: FolderId) -> Tuple {
        Tuple::object(self.0.child.object(), "parent", object(parent))
    }

    fn event(&self, from: Option<FolderId>, to: Option<FolderId>) -> AuditEvent {
        let (action, place) = self.0.child.moved();
        let mut payload = json!({ place: { "from": from, "to": to } });
        let is_managed = AS_MANAGER || self.0.moved_as_manager;
        if let (true, Some(members)) = (is_managed, payload.as_object_mut()) {
            members.insert("asManager".to_owned(), true.into());
        }
        let subject = self.0.child.audit_subject();
        AuditEvent { company: Some(self.0.company), action, subject, payload }
    }

    /// Notes that a document or folder has lost what its former folder gave.
    async fn rights_changed(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        match self.0.child {
            Child::Document(id) => rights::changed(tx.conn(), self.0.company, id).await,
            Child::Folder(id) => rights::changed_in_folder(tx.conn(), self.0.company, id).await,
        }
    }
}

impl<const AS_MANAGER: bool> TupleRow for Moved<AS_MANAGER> {
    const TABLE: &'static str = "docs.placements";
    const NOUN: &'static str = "placement";
    const EXCHANGE_IS_LEFT: bool = true;
    type Shown = ();

    async fn find(conn: &mut PgConnection, company: CompanyId, id: Uuid) -> Result<Option<Self>, ApiError> {
        Ok(store::find(conn, company, id).await?.map(Self))
    }

    fn tuples(&self) -> Vec<Tuple> {
        vec![self.tuple(self.0.parent)]
    }

    /// Nothing is ever in two folders: the old tuple is removed first.
    fn next(&self) -> Option<Next> {
        self.0.next.map(|parent| Next { tuples: vec![self.tuple(parent)], gains: false })
    }

    /// authz removes `parent` tuples only with a member's bearer: the next request about the document or folder does that
    /// (`unfinished.rs`).
    fn broken_off(&self) -> BrokenOff {
        BrokenOff::Left
    }

    fn exchanged_by(&self) -> Option<&str> {
        self.0.moved_by.as_deref()
    }

    fn removed_by(&self) -> Option<&str> {
        self.0.moved_by.as_deref()
    }

    fn shown(&self) {}

    async fn granted(&self, tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        store::follow(tx.conn(), self.0.company, self.0.child, Some(self.0.parent)).await?;
        Ok(self.event(None, Some(self.0.parent)))
    }

    /// The child stays in its folder until its tuple is gone.
    async fn revoking(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        if let Child::Folder(moved) = self.0.child {
            store::lock_folders(tx.conn(), self.0.company).await?;
            folders::lock_moved(tx.conn(), self.0.company, moved).await?;
            check_size(store::extent(tx.conn(), self.0.company, moved).await?.1)?;
        }
        store::set_moved(tx, &self.0, None, AS_MANAGER).await
    }

    async fn not_revoked(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        store::follow(tx.conn(), self.0.company, self.0.child, Some(self.0.parent)).await
    }

    async fn revoked(&self, tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        store::follow(tx.conn(), self.0.company, self.0.child, None).await?;
        self.rights_changed(tx).await?;
        Ok(self.event(Some(self.0.parent), None))
    }

    async fn exchanged(&self, tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        let parent = self.0.next.ok_or_else(|| ApiError::internal("a move without a target folder"))?;
        store::set_parent(tx.conn(), &self.0, parent).await?;
        store::follow(tx.conn(), self.0.company, self.0.child, Some(parent)).await?;
        self.rights_changed(tx).await?;
        Ok(self.event(Some(self.0.parent), Some(parent)))
    }

    async fn not_exchanged(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        store::set_parent(tx.conn(), &self.0, self.0.parent).await?;
        store::follow(tx.conn(), self.0.company, self.0.child, Some(self.0.parent)).await
    }
}

/// A placement to create.
pub(super) struct NewPlacement<const AS_MANAGER: bool> {
    pub(super) company: CompanyId,
    pub(super) child: Child,
    pub(super) parent: FolderId,
    pub(super) decided: Decided,
}

impl<const AS_MANAGER: bool> NewRow for NewPlacement<AS_MANAGER> {
    type Row = Moved<AS_MANAGER>;

    async fn insert(&self, tx: &mut AuditedTx) -> Result<Uuid, ApiError> {
        check(tx, self.company, self.child, self.parent, self.decided).await?;
        if let Some(found) = store::of_child(&mut *tx.conn(), self.company, self.child).await? {
            let is_resumed = found.state == "pending" && found.parent == self.parent;
            return if is_resumed { Ok(found.id) } else { Err(moves()) };
        }
        let placement = Placement {
            state: "pending".to_owned(),
            moved_as_manager: AS_MANAGER,
            ..Placement::active(self.company, self.child, self.parent)
        };
        store::insert(tx.conn(), &placement).await?;
        Ok(placement.id)
    }
}

/// A move to another folder.
#[derive(Clone)]
pub(super) struct ChangeParent<const AS_MANAGER: bool> {
    pub(super) parent: FolderId,
    pub(super) decided: Decided,
}

impl<const AS_MANAGER: bool> Exchange for ChangeParent<AS_MANAGER> {
    type Row = Moved<AS_MANAGER>;

    async fn begin(&self, row: &Self::Row, tx: &mut AuditedTx) -> Result<bool, ApiError> {
        if row.0.parent == self.parent {
            return Ok(false);
        }
        check(tx, row.0.company, row.0.child, self.parent, self.decided).await?;
        store::set_moved(tx, &row.0, Some(self.parent), AS_MANAGER).await?;
        Ok(true)
    }

    fn is_under_way(&self, row: &Self::Row) -> bool {
        row.0.next == Some(self.parent)
    }
}

/// What a move was decided by.
#[derive(Clone, Copy, Debug)]
pub(super) enum Decided {
    /// The move of a document, for these rights to it.
    Document {
        rights: Rights,
        /// The caller manages the folder that it lies in, and takes it out of there, even if it is in the trash.
        takes_out: bool,
    },
    /// The move of a folder by its manager.
    Folder,
    /// The move of a folder out of this one, by the manager of this one.
    Subfolder(FolderId),
}

impl<const AS_MANAGER: bool> Guard<Moved<AS_MANAGER>> for Decided {
    async fn admit(&self, row: &Moved<AS_MANAGER>, tx: &mut AuditedTx) -> Result<(), ApiError> {
        match *self {
            Self::Subfolder(parent) if row.0.parent != parent => Err(moves()),
            Self::Subfolder(_) => Ok(()),
            Self::Document { .. } | Self::Folder => {
                check_decision(tx, row.0.company, row.0.child, *self).await
            }
        }
    }
}

/// Checks, under a document's lock, that it may still be moved. A folder that is taken out of another one is moved nowhere
/// else.
async fn check_decision(
    tx: &mut AuditedTx,
    company: CompanyId,
    child: Child,
    decided: Decided,
) -> Result<(), ApiError> {
    let (document, rights, takes_out) = match (child, decided) {
        (Child::Document(document), Decided::Document { rights, takes_out }) => (document, rights, takes_out),
        (Child::Folder(_), Decided::Folder) => return Ok(()),
        _ => return Err(moves()),
    };
    let found = documents::lock_sharing(tx.conn(), company, document).await?;
    if found.state != State::Active && !takes_out {
        return Err(trashed());
    }
    // What shares of folders give is no right to move the document.
    if rights.is_same_without_folders(found.rights) { Ok(()) } else { Err(rights_changed()) }
}

/// Checks that the child may move into a folder, and keeps the folder from being deleted until the transaction ends.
async fn check(
    tx: &mut AuditedTx,
    company: CompanyId,
    child: Child,
    parent: FolderId,
    decided: Decided,
) -> Result<(), ApiError> {
    check_decision(tx, company, child, decided).await?;
    if let Child::Folder(moved) = child {
        store::lock_folders(tx.conn(), company).await?;
        folders::lock_moved(tx.conn(), company, moved).await?;
        store::site(tx.conn(), company, parent, Some(moved)).await?.check()?;
    }
    store::lock_parent(tx.conn(), company, parent).await
}

/// 409 `MOVE_IN_PROGRESS`.
pub(super) fn moves() -> ApiError {
    conflict("MOVE_IN_PROGRESS", "a move is in progress", serde_json::Value::Null)
}
