//! Creates a document in two phases: its row, first version and idempotency key are committed as `provisioning`, its
//! tuples are granted, then it becomes `active`. While `provisioning`, no operation finds it.

use contract::Subject;
use contract::decision::ObjectRef;
use contract::grants::Tuple;
use contract::id::{CompanyId, MemberId};
use serde_json::{Map, Value, json};
use service::two_store::{NewRow, States, TupleRow};
use service::{ApiError, AuditEvent, AuditedTx};
use sqlx::PgConnection;
use uuid::Uuid;

use super::rules::{Content, Detail, DocumentId, Role, StoredDocument, size};
use super::{counts, store};
use crate::folders::rules::FolderId;
use crate::operations::{DOCUMENT, FOLDER};
use crate::{KEY, placements};

/// A document to create.
pub(crate) struct NewDocument {
    pub(crate) company: CompanyId,
    pub(crate) owner: Subject,
    pub(crate) member: MemberId,
    pub(crate) label: Option<String>,
    pub(crate) content: Content,
    pub(crate) folder: Option<FolderId>,
    pub(crate) is_template: bool,
}

impl NewRow for NewDocument {
    type Row = MadeDocument;

    async fn insert(&self, tx: &mut AuditedTx) -> Result<Uuid, ApiError> {
        let id = DocumentId::mint().as_uuid();
        if let Some(folder) = self.folder {
            placements::store::lock_parent(tx.conn(), self.company, folder).await?;
        }
        sqlx::query!(
            "INSERT INTO docs.documents(id, company_id, title, body, current_version, owner_kc_sub, owner_member_id,
               owner_label, is_template, folder_id, state, updated_by)
             VALUES ($1, $2, $3, $9, 1, $4, $5, $6, $7, $8, 'provisioning', $4)",
            id,
            self.company.as_uuid(),
            self.content.title,
            self.owner.as_str(),
            self.member.as_uuid(),
            self.label,
            self.is_template,
            self.folder.map(FolderId::as_uuid),
            self.content.body
        )
        .execute(tx.conn())
        .await?;
        sqlx::query!(
            "INSERT INTO docs.versions(document_id, version, title, body, author) VALUES ($1, 1, $2, $3, $4)",
            id,
            self.content.title,
            self.content.body,
            self.owner.as_str()
        )
        .execute(tx.conn())
        .await?;
        Ok(id)
    }
}

/// A document's row and first text, as a `TupleRow`.
#[derive(Debug)]
pub struct MadeDocument {
    document: StoredDocument,
    content: Content,
}

impl TupleRow for MadeDocument {
    const TABLE: &'static str = "docs.documents";
    const NOUN: &'static str = "document";
    // The last two states never occur: documents are not deleted.
    const STATES: States =
        States { pending: "provisioning", active: "active", revoking: "deleting", exchanging: "exchanging" };
    type Shown = Detail;

    async fn find(conn: &mut PgConnection, company: CompanyId, id: Uuid) -> Result<Option<Self>, ApiError> {
        let found = store::read(conn, company, id.into()).await?;
        Ok(found.map(|(document, content, _)| Self { document, content }))
    }

    fn tuples(&self) -> Vec<Tuple> {
        let (id, owner) = (self.document.id, &self.document.owner);
        let mut tuples = vec![
            Tuple::anchor(object(id), self.document.company, KEY),
            Tuple::user(object(id), "owner", owner),
        ];
        let parent = |folder: FolderId| ObjectRef { kind: FOLDER.to_owned(), id: folder.to_string() };
        tuples.extend(self.document.folder.map(|folder| Tuple::object(object(id), "parent", parent(folder))));
        tuples
    }

    fn shown(&self) -> Detail {
        self.document.clone().shown(Some(Role::Owner), None).with_body(self.content.body.clone())
    }

    async fn granted(&self, tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        let document = &self.document;
        counts::add(tx.conn(), document.company).await?;
        let mut told = Map::new();
        let mut tell =
            |name: &str, to: Value| told.insert(name.to_owned(), json!({ "from": null, "to": to }));
        tell("title", document.title.as_str().into());
        tell("size", size(&self.content.body).into());
        if let Some(folder) = document.folder {
            placements::store::add_active(tx.conn(), document.company, document.id, folder).await?;
            tell("folderId", json!(folder));
        }
        Ok(AuditEvent {
            company: Some(document.company),
            action: "document.created",
            subject: document.audit_subject(),
            payload: told.into(),
        })
    }

    async fn revoked(&self, _tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        Err(ApiError::internal("documents are not deleted"))
    }
}

/// The authz object of a document.
pub(crate) fn object(id: DocumentId) -> ObjectRef {
    ObjectRef { kind: DOCUMENT.to_owned(), id: id.to_string() }
}
