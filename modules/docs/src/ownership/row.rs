//! Implements `TupleRow` for `docs.ownerships`, which holds a new owner until the tuple is granted and a former owner
//! until the tuple is removed. The current owner is in `docs.documents`.

use contract::grants::Tuple;
use contract::id::{CompanyId, MemberId};
use contract::{Principal, Subject};
use serde_json::{Value, json};
use service::refusal::conflict;
use service::two_store::{BrokenOff, NewRow, TupleRow};
use service::{ApiError, AuditEvent, AuditedTx};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::documents::new::object;
use crate::documents::rights::{self, Rights};
use crate::documents::rules::{DocumentId, State, subject_of, trashed};
use crate::documents::store::{lock_row, lock_sharing};
use crate::shares::rules::{MAX_SHARES, Target, is_owner, too_many_shares};
use crate::store::subject;
use crate::{admission, shares};

/// A new or former owner of a document.
#[derive(Clone, Debug)]
pub struct Ownership {
    company: CompanyId,
    document: DocumentId,
    subject: Subject,
    member: MemberId,
    label: Option<String>,
    as_manager: bool,
    /// Whether this is a new owner, whose tuple is to be granted; a former owner's is to be removed.
    is_coming: bool,
    /// The document's current owner.
    owner: Subject,
    /// Whether a share of the document stands for the subject.
    has_share: bool,
}

/// An owner to install.
pub(super) struct NewOwner {
    pub(super) company: CompanyId,
    pub(super) document: DocumentId,
    pub(super) subject: Subject,
    pub(super) member: MemberId,
    pub(super) label: String,
    pub(super) as_manager: bool,
    /// The document's rights when the transfer was decided.
    pub(super) rights: Rights,
}

impl NewRow for NewOwner {
    type Row = Ownership;

    async fn insert(&self, tx: &mut AuditedTx) -> Result<Uuid, ApiError> {
        let (company, document) = (self.company, self.document);
        let found = lock_sharing(tx.conn(), company, document).await?;
        if found.state != State::Active {
            return Err(trashed());
        }
        if found.owner == self.subject.as_str() {
            return Err(is_owner());
        }
        if is_unfinished(tx, company, document).await? {
            return Err(in_progress());
        }
        if found.transfer_to.as_deref().is_some_and(|to| to != self.subject.as_str()) {
            return Err(in_progress());
        }
        admission::check_rights(self.rights, found.rights)?;
        if found.transfer_to.is_none() {
            self.check_room(tx).await?;
        }
        sqlx::query!(
            "UPDATE docs.documents SET transfer_to = $3 WHERE company_id = $1 AND id = $2",
            company.as_uuid(),
            document.as_uuid(),
            self.subject.as_str()
        )
        .execute(tx.conn())
        .await?;
        // Repeating the same transfer resumes its row.
        let row = sqlx::query_scalar!(
            "INSERT INTO docs.ownerships(id, company_id, document_id, kc_sub, member_id, label, as_manager, state)
             VALUES ($1, $2, $3, $4, $5, $6, $7, 'pending')
             ON CONFLICT (document_id, kc_sub) DO UPDATE SET member_id = excluded.member_id, label = excluded.label
             RETURNING id",
            Uuid::now_v7(),
            company.as_uuid(),
            document.as_uuid(),
            self.subject.as_str(),
            self.member.as_uuid(),
            self.label,
            self.as_manager
        );
        Ok(row.fetch_one(tx.conn()).await?)
    }
}

impl NewOwner {
    /// Checks that the document has room for the share that the present owner keeps; the new owner's is removed.
    async fn check_room(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        let target = Target::Document(self.document);
        let shares = shares::store::count(tx.conn(), self.company, target).await?;
        let principal = Principal::Member(self.member);
        let absorbed = shares::store::of_principal(tx.conn(), self.company, target, principal).await?;
        if shares - i64::from(absorbed.is_some()) >= MAX_SHARES { Err(too_many_shares()) } else { Ok(()) }
    }
}

impl TupleRow for Ownership {
    const TABLE: &'static str = "docs.ownerships";
    const NOUN: &'static str = "transfer";
    type Shown = ();

    async fn find(conn: &mut PgConnection, company: CompanyId, id: Uuid) -> Result<Option<Self>, ApiError> {
        let row = sqlx::query!(
            r#"SELECT o.document_id, o.kc_sub, o.member_id, o.label, o.as_manager, o.state, d.owner_kc_sub,
               EXISTS (SELECT FROM docs.shares s WHERE s.document_id = o.document_id AND s.kc_sub = o.kc_sub)
                 AS "has_share!"
             FROM docs.ownerships o JOIN docs.documents d ON d.id = o.document_id
             WHERE o.company_id = $1 AND o.id = $2"#,
            company.as_uuid(),
            id
        )
        .fetch_optional(conn)
        .await?;
        let Some(row) = row else { return Ok(None) };
        Ok(Some(Self {
            company,
            document: row.document_id.into(),
            subject: subject(&row.kc_sub)?,
            member: row.member_id.into(),
            label: row.label,
            as_manager: row.as_manager,
            is_coming: row.state == "pending",
            owner: subject(&row.owner_kc_sub)?,
            has_share: row.has_share,
        }))
    }

    /// The owner's tuple and, for a new owner, the share that the present owner keeps.
    fn tuples(&self) -> Vec<Tuple> {
        let mut tuples = vec![Tuple::user(object(self.document), "owner", &self.subject)];
        if self.is_coming {
            tuples.push(Tuple::user(object(self.document), "editor", &self.owner));
        }
        tuples
    }

    /// The former owner's tuple, and the one of the share that the former owner could not be given ([`hand_over`]).
    fn removed_tuples(&self) -> Vec<Tuple> {
        let of_share = (!self.has_share).then_some("editor");
        let gone = ["owner"].into_iter().chain(of_share);
        gone.map(|relation| Tuple::user(object(self.document), relation, &self.subject)).collect()
    }

    /// A former owner's tuple must go, however long that takes.
    fn broken_off(&self) -> BrokenOff {
        BrokenOff::Finished
    }

    fn shown(&self) {}

    async fn lock(&self, tx: &mut AuditedTx) -> Result<(), ApiError> {
        lock_row(tx.conn(), self.company, self.document).await
    }

    async fn granted(&self, tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        let Former { member, share } = hand_over(tx, self).await?;
        let mut told = json!({
            "ownerMemberId": { "from": member, "to": self.member }, "owner": { "from": self.owner, "to": self.subject } });
        if let Some(members) = told.as_object_mut() {
            members.extend(share.map(|id| ("shareId".to_owned(), json!(id))));
            members.extend(self.as_manager.then(|| ("asManager".to_owned(), true.into())));
        }
        Ok(self.event("ownership.transferred", told))
    }

    async fn not_granted(&self, tx: &mut AuditedTx) -> Result<Option<AuditEvent>, ApiError> {
        sqlx::query!(
            "UPDATE docs.documents SET transfer_to = NULL WHERE company_id = $1 AND id = $2 AND transfer_to = $3",
            self.company.as_uuid(),
            self.document.as_uuid(),
            self.subject.as_str()
        )
        .execute(tx.conn())
        .await?;
        Ok(None)
    }

    /// Refuses to remove the tuple of the current owner: only former owners' tuples are left over.
    async fn revoking(&self, _tx: &mut AuditedTx) -> Result<(), ApiError> {
        if self.subject == self.owner { Err(in_progress()) } else { Ok(()) }
    }

    async fn revoked(&self, tx: &mut AuditedTx) -> Result<AuditEvent, ApiError> {
        rights::changed(tx.conn(), self.company, self.document).await?;
        Ok(self.event("ownership.ended", json!({ "owner": self.subject })))
    }
}

impl Ownership {
    fn event(&self, action: &'static str, payload: Value) -> AuditEvent {
        AuditEvent { company: Some(self.company), action, subject: subject_of(self.document), payload }
    }
}

/// The former owner of a document.
struct Former {
    member: MemberId,
    /// The share that the former owner is left with.
    share: Option<Uuid>,
}

/// Writes the new owner to the document, whose lock the caller holds. The former owner gets a share and an ownership row
/// in `revoking`, whose tuple is then removed. A former owner whose member row has got another login since, with which the
/// document is shared, gets no share: that login keeps its own.
async fn hand_over(tx: &mut AuditedTx, new: &Ownership) -> Result<Former, ApiError> {
    let (company, document) = (new.company.as_uuid(), new.document.as_uuid());
    let former = sqlx::query!(
        "SELECT owner_member_id, owner_label FROM docs.documents WHERE company_id = $1 AND id = $2",
        company,
        document
    )
    .fetch_one(tx.conn())
    .await?;
    sqlx::query!(
        "UPDATE docs.documents
         SET owner_kc_sub = $3, owner_member_id = $4, owner_label = $5, transfer_to = NULL,
           rights_version = rights_version + 1
         WHERE company_id = $1 AND id = $2",
        company,
        document,
        new.subject.as_str(),
        new.member.as_uuid(),
        new.label
    )
    .execute(tx.conn())
    .await?;
    let actor = tx.actor().to_owned();
    let share = sqlx::query_scalar!(
        "INSERT INTO docs.shares(id, company_id, document_id, principal_kind, member_id, kc_sub, label, role, state,
           granted_by)
         VALUES ($1, $2, $3, 'member', $4, $5, $6, 'editor', 'active', $7)
         ON CONFLICT (document_id, member_id) WHERE member_id IS NOT NULL
           DO UPDATE SET role = 'editor', next_role = NULL, state = 'active' WHERE shares.kc_sub = excluded.kc_sub
         RETURNING id",
        Uuid::now_v7(),
        company,
        document,
        former.owner_member_id,
        new.owner.as_str(),
        former.owner_label,
        actor
    )
    .fetch_optional(tx.conn())
    .await?;
    sqlx::query!(
        "INSERT INTO docs.ownerships(id, company_id, document_id, kc_sub, member_id, label, state)
         VALUES ($1, $2, $3, $4, $5, $6, 'revoking')
         ON CONFLICT (document_id, kc_sub) DO UPDATE SET state = 'revoking', attempts = 0, attempted_at = now()",
        Uuid::now_v7(),
        company,
        document,
        new.owner.as_str(),
        former.owner_member_id,
        former.owner_label
    )
    .execute(tx.conn())
    .await?;
    Ok(Former { member: former.owner_member_id.into(), share })
}

/// Whether a document of this owner's names another member row than this one. The answer holds only for the moment.
pub(super) async fn names_another(
    pool: &PgPool,
    company: CompanyId,
    document: DocumentId,
    owner: &Subject,
    member: MemberId,
) -> Result<bool, ApiError> {
    let found = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM docs.documents
             WHERE company_id = $1 AND id = $2 AND owner_kc_sub = $3 AND owner_member_id <> $4) AS "found!""#,
        company.as_uuid(),
        document.as_uuid(),
        owner.as_str(),
        member.as_uuid()
    );
    Ok(found.fetch_one(pool).await?)
}

/// Whether a share of the current owner or a former owner's tuple is still to be removed. The caller holds the
/// document's lock.
async fn is_unfinished(
    tx: &mut AuditedTx,
    company: CompanyId,
    document: DocumentId,
) -> Result<bool, ApiError> {
    let found = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM docs.shares s WHERE s.document_id = d.id AND s.kc_sub = d.owner_kc_sub)
             OR EXISTS (SELECT FROM docs.ownerships o
               WHERE o.document_id = d.id AND o.state <> 'pending' AND o.kc_sub <> d.owner_kc_sub) AS "found!"
           FROM docs.documents d WHERE d.company_id = $1 AND d.id = $2"#,
        company.as_uuid(),
        document.as_uuid()
    );
    Ok(found.fetch_one(tx.conn()).await?)
}

/// 409 `TRANSFER_IN_PROGRESS`.
fn in_progress() -> ApiError {
    conflict("TRANSFER_IN_PROGRESS", "a transfer of ownership is in progress", Value::Null)
}
