//! Shares: their fields and limits, and who may give or remove them.

use contract::fields::{Fields, FromBody};
use contract::id::CompanyId;
use contract::principal::{Named, PrincipalKind};
use contract::{Principal, Subject, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};
use service::ApiError;
use service::refusal::{broken, not_yours};

use crate::admission::check_rights;
use crate::documents::rights::Rights;
use crate::documents::rules::{DocumentId, State, subject_of, trashed};
use crate::folders::rules::FolderId;

contract::typed_id!(
    /// A share of one company.
    ShareId
);

/// Most shares of one document or folder: each is a tuple that authz holds in memory.
pub const MAX_SHARES: i64 = 200;

contract::words! {
    /// What a share allows, least first.
    pub enum ShareRole {
        /// Read.
        Viewer = "viewer",
        /// Read and comment.
        Commenter = "commenter",
        /// Read, comment and write.
        Editor = "editor",
    }
}

impl ShareRole {
    /// Every role.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Commenter, Self::Editor];
}

/// Up to which role a caller may share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Up to the caller's own role.
    Own(ShareRole),
    /// Any role: an owner or a manager.
    Whole,
}

impl Level {
    /// Checks that the caller may give, change or remove a share of this role.
    ///
    /// # Errors
    /// 403 `SHARE_ABOVE_OWN_ROLE`.
    pub fn check(self, role: ShareRole) -> Result<(), ApiError> {
        match self {
            Self::Own(own) if role > own => {
                Err(not_yours("SHARE_ABOVE_OWN_ROLE", "the share gives more than the caller's own role"))
            }
            Self::Own(_) | Self::Whole => Ok(()),
        }
    }
}

/// The right with which a caller gives, changes or removes shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Right {
    /// Up to which role.
    pub(crate) level: Level,
    /// The document's rights when the call was decided; `None` where the caller's right does not depend on them.
    pub(crate) decided: Option<Rights>,
}

impl Right {
    /// The right of a folder's manager, or of a member over the member's own share.
    pub(crate) const WHOLE: Self = Self { level: Level::Whole, decided: None };

    /// Checks, under the document's lock, that the caller may still share it.
    ///
    /// # Errors
    /// 409 `DOCUMENT_TRASHED` and 403 `EDITORS_CANNOT_SHARE` for an editor; 409 when rights to the document have changed
    /// since the decision ([`Admitted::is_decided_again`](crate::admission::Admitted::is_decided_again)).
    pub(crate) fn check(self, now: State, editors_can_share: bool, rights: Rights) -> Result<(), ApiError> {
        if self.level != Level::Whole {
            if now != State::Active {
                return Err(trashed());
            }
            if !editors_can_share {
                return Err(not_yours("EDITORS_CANNOT_SHARE", "only the document's managers may share it"));
            }
        }
        self.decided.map_or(Ok(()), |decided| check_rights(decided, rights))
    }
}

/// What is shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// One document.
    Document(DocumentId),
    /// A folder with everything in it.
    Folder(FolderId),
}

impl Target {
    /// The id, if it is a document.
    #[must_use]
    pub const fn document(self) -> Option<DocumentId> {
        if let Self::Document(id) = self { Some(id) } else { None }
    }

    /// The id, if it is a folder.
    #[must_use]
    pub const fn folder(self) -> Option<FolderId> {
        if let Self::Folder(id) = self { Some(id) } else { None }
    }

    /// The subject of the audit rows.
    #[must_use]
    pub fn audit_subject(self) -> String {
        match self {
            Self::Document(id) => subject_of(id),
            Self::Folder(id) => crate::folders::rules::subject_of(id),
        }
    }
}

/// A share as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Minted at creation.
    pub id: ShareId,
    /// The company that it belongs to.
    pub company: CompanyId,
    /// What is shared.
    pub target: Target,
    /// The grantee.
    pub principal: Principal,
    /// The subject that the tuple names; only for a member.
    pub kc_sub: Option<Subject>,
    /// The principal's name at the time of sharing.
    pub label: Option<String>,
    /// The role that it gives.
    pub role: ShareRole,
    /// The role that it will give, while its role changes.
    pub next_role: Option<ShareRole>,
    /// The subject that gave it.
    pub granted_by: String,
    /// The subject that began to remove it, while it is being removed.
    pub revoked_by: Option<String>,
    /// Why it is being removed, if no caller requested the removal.
    pub revoked_for: Option<String>,
    /// When it was given.
    pub created_at: Timestamp,
}

/// A share as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Shown {
    id: ShareId,
    document_id: Option<DocumentId>,
    folder_id: Option<FolderId>,
    principal_kind: PrincipalKind,
    #[serde(flatten)]
    principal: Principal,
    title: Option<String>,
    role: ShareRole,
    granted_by: String,
    created_at: Timestamp,
    is_inherited: bool,
}

impl Shown {
    /// Renders what a folder gives to what lies in it, without the folder unless the caller sees it.
    #[must_use]
    pub fn inherited(self, is_seen: bool) -> Self {
        Self { folder_id: self.folder_id.filter(|_| is_seen), is_inherited: true, ..self }
    }
}

impl Share {
    /// Renders the share; `title` is the principal's current name from org.
    #[must_use]
    pub fn shown(self, title: Option<String>) -> Shown {
        Shown {
            id: self.id,
            document_id: self.target.document(),
            folder_id: self.target.folder(),
            principal_kind: self.principal.kind(),
            principal: self.principal,
            title: title.or(self.label),
            role: self.role,
            granted_by: self.granted_by,
            created_at: self.created_at,
            is_inherited: false,
        }
    }

    /// The payload of the share's audit rows.
    #[must_use]
    pub fn told(&self, as_manager: bool) -> Value {
        let mut told = json!({ "shareId": self.id, "principalKind": self.principal.kind(),
            "principalId": id_of(self.principal), "role": self.role });
        if let (true, Some(members)) = (as_manager, told.as_object_mut()) {
            members.insert("asManager".to_owned(), true.into());
        }
        told
    }
}

fn id_of(principal: Principal) -> Value {
    match principal {
        Principal::Member(id) => json!(id),
        Principal::Position(id) => json!(id),
        Principal::Group(id) => json!(id),
    }
}

/// The body of a request to give a share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CreateBody {
    pub(crate) named: Named,
    pub(crate) role: ShareRole,
}

impl FromBody for CreateBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let (named, role) = (Named::read(fields), fields.word("role", ShareRole::WORDS));
        Some(Self { named: named?, role: role? })
    }
}

/// The body of a request to change a share's role.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoleBody {
    pub(crate) role: ShareRole,
}

impl FromBody for RoleBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self { role: fields.word("role", ShareRole::WORDS)? })
    }
}

/// 422 `PRINCIPAL_AMBIGUOUS`.
pub(crate) fn ambiguous() -> ApiError {
    let message = "exactly one of memberId, positionId and groupId";
    broken("PRINCIPAL_AMBIGUOUS", message, Value::Null)
}

/// 422 `PRINCIPAL_UNKNOWN`.
pub(crate) fn unknown_principal() -> ApiError {
    broken("PRINCIPAL_UNKNOWN", "the company has no such active member, position or group", Value::Null)
}

/// 422 `MEMBER_NOT_LINKED`.
pub(crate) fn not_linked() -> ApiError {
    broken("MEMBER_NOT_LINKED", "the member has no login", Value::Null)
}

/// 422 `TOO_MANY_SHARES`.
pub(crate) fn too_many_shares() -> ApiError {
    broken("TOO_MANY_SHARES", "at most 200 shares", json!({ "maxShares": MAX_SHARES }))
}

/// 422 `PRINCIPAL_IS_OWNER`.
pub(crate) fn is_owner() -> ApiError {
    broken("PRINCIPAL_IS_OWNER", "the member is the owner", Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_above_the_own_role_is_refused() {
        for own in ShareRole::ALL {
            for role in ShareRole::ALL {
                assert_eq!(Level::Own(own).check(role).is_ok(), role <= own, "{own:?} {role:?}");
                assert!(Level::Whole.check(role).is_ok());
            }
        }
    }
}
