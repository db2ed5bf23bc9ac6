//! Implements `TupleRow` for folders.

use contract::Subject;
use contract::decision::ObjectRef;
use contract::grants::Tuple;
use contract::id::{CompanyId, MemberId};
use serde_json::{Value, json};
use service::refusal::{broken, conflict};
use service::two_store::{NewRow, TupleRow};
use service::{ApiError, AuditEvent, AuditedTx};
use sqlx::PgConnection;
use uuid::Uuid;

use super::rules::{Folder, FolderId, MAX_OWNED, StoredFolder, subject_of};
use super::store;
use crate::KEY;
use crate::documents::rules::Role;
use crate::operations::FOLDER;
use crate::placements;
use crate::placements::row::Placement;
use crate::placements::rules::Child;
use crate::shares;
use crate::shares::row::Swept as ShareRow;
use crate::shares::rules::{Share, Target};

/// A folder with its shares, which are deleted with it.
#[derive(Debug)]
pub struct FolderRow {
    pub(super) folder: StoredFolder,
    shares: Vec<Share>,
}

/// The authz object of a folder.
pub(crate) fn object(id: FolderId) -> ObjectRef {
    ObjectRef { kind: FOLDER.to_owned(), id: id.to_string() }
}

impl FolderRow {
    fn event(&self, action: &'static str, payload: Value) -> AuditEvent {
        let folder = &self.folder;
        AuditEvent { company: Some(folder.company), action, subject: subject_of(folder.id), payload }
    }
}

impl TupleRow for FolderRow {
    const TABLE: &'static str = "docs.folders";
    const NOUN: &'static str = "folder";
    type Shown = Folder;

    async fn find(conn: &mut PgConnection, company: CompanyId, id: Uuid) -> Result<Option<Self>, ApiError> {
        let Some(folder) = store::find(&mut *conn, company, id.into()).await? else { return Ok(None) };
        let shares = shares::store::list(conn, company, Target::Folder(folder.id)).await?;
        Ok(Some(Self { folder, shares }))
    }

    fn tuples(&self) -> Vec<Tuple> {
        let folder = &self.folder;
        let mut tuples = vec![
            Tuple::anchor(object(folder.id), folder.company, KEY),
            Tuple::user(object(folder.id), "owner", &folder.owner),
        ];
        tuples.extend(folder.parent.map(|parent| Tuple::object(object(folder.id), "parent", object(parent))));
        tuples
    }

    /// The folder's tuples and those of its shares, removed in one request.
    fn removed_tuples(&self) -> Vec<Tuple> {
        let shared = self.shares.iter().flat_map(|share| ShareRow::from_share(share).removed_tuples());
        self.tuples().into_iter().chain(shared).collect()
    }

    fn shown(&self) -> Folder {
        self.folder.clone().shown(Some(Role::Owner), None)
    }

    async fn granted(&self, tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        let (company, id) = (self.folder.company, self.folder.id);
        if let Some(parent) = self.folder.parent {
            let placement = Placement::active(company, Child::Folder(id), parent);
            placements::store::insert(tx.conn(), &placement).await?;
        }
        placements::store::lock_folders(tx.conn(), company).await?;
        placements::store::index(tx.conn(), company, id).await?;
        let told = |to: Value| json!({ "from": null, "to": to });
        let payload =
            json!({ "name": told(json!(self.folder.name)), "parentId": told(json!(self.folder.parent)) });
        Ok(self.event("folder.created", payload))
    }

    /// Refuses to delete a folder that is not empty, documents in the trash included. Afterwards the folder accepts no
    /// children or shares.
    async fn revoking(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        let held = store::holds(tx.conn(), self.folder.company, self.folder.id).await?;
        if held.folders + held.documents + held.moves > 0 {
            let details = json!({ "folders": held.folders, "documents": held.documents,
                "trashedDocumentIds": held.trashed });
            return Err(conflict("FOLDER_NOT_EMPTY", "the folder is not empty", details));
        }
        if held.unsettled_shares > 0 {
            return Err(ApiError::conflict("a share of the folder is being changed"));
        }
        Ok(())
    }

    async fn revoked(&self, _tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        Ok(self.event("folder.deleted", json!({ "name": self.folder.name, "shares": self.shares.len() })))
    }
}

/// A folder to create.
pub(super) struct NewFolder {
    pub(super) company: CompanyId,
    pub(super) owner: Subject,
    pub(super) member: MemberId,
    pub(super) label: Option<String>,
    pub(super) name: String,
    pub(super) parent: Option<FolderId>,
}

impl NewRow for NewFolder {
    type Row = FolderRow;

    async fn insert(&self, tx: &mut AuditedTx) -> Result<Uuid, ApiError> {
        placements::store::lock_folders(tx.conn(), self.company).await?;
        if store::owned(tx.conn(), self.company, &self.owner).await? >= MAX_OWNED {
            let details = json!({ "maxFolders": MAX_OWNED });
            return Err(broken("TOO_MANY_FOLDERS", "a member owns at most 5,000 folders", details));
        }
        if let Some(parent) = self.parent {
            let site = placements::store::site(tx.conn(), self.company, parent, None).await?;
            placements::rules::Site { height: 1, ..site }.check()?;
            placements::store::lock_parent(tx.conn(), self.company, parent).await?;
        }
        let id = FolderId::mint().as_uuid();
        sqlx::query!(
            "INSERT INTO docs.folders(id, company_id, name, parent_id, owner_kc_sub, owner_member_id, owner_label)
             VALUES ($1, $2, $3, $4, $5, $6, $7)",
            id,
            self.company.as_uuid(),
            self.name,
            self.parent.map(FolderId::as_uuid),
            self.owner.as_str(),
            self.member.as_uuid(),
            self.label
        )
        .execute(tx.conn())
        .await?;
        Ok(id)
    }
}
