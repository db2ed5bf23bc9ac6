//! What a document is to the one who looks at it.

use contract::id::{CompanyId, MemberId};
use contract::{Subject, Timestamp};
use serde::Serialize;
use service::clients::org::MemberContext;

contract::typed_id!(
    /// A document of one company.
    DocumentId
);

/// Longest text of a search.
pub const MAX_SEARCH: usize = 100;

contract::words! {
    /// Which documents are listed.
    pub enum View {
        /// Those that the caller owns.
        Mine = "mine",
        /// Others' documents that are shared with the caller, a position or a group of the caller, or the whole company.
        Shared = "shared",
        /// Those that the caller owns and has put into the trash.
        Trash = "trash",
        /// Every document of the company.
        All = "all",
        /// Every document of the company in the trash.
        TrashAll = "trash_all",
    }
}

impl View {
    /// Words of the views that only administrators of the module have.
    pub const OF_MANAGERS: &'static [&'static str] = &[Self::All.word(), Self::TrashAll.word()];

    /// Whether only administrators of the module have this view.
    #[must_use]
    pub const fn is_managers(self) -> bool {
        matches!(self, Self::All | Self::TrashAll)
    }

    /// The stored state of the documents in it.
    #[must_use]
    pub const fn state(self) -> &'static str {
        match self {
            Self::Mine | Self::Shared | Self::All => "active",
            Self::Trash | Self::TrashAll => "trashed",
        }
    }
}

/// Who looks.
#[derive(Clone, Copy, Debug)]
pub struct Looker<'a> {
    /// The verified bearer's.
    pub subject: &'a Subject,
    /// The active member that this is; `None` where the view does not need it, or for an operator who is none.
    pub member: Option<&'a MemberContext>,
    /// Whether the decision said that this caller administers the module.
    pub manages: bool,
}

contract::words! {
    /// What somebody may do with a document.
    pub enum Role {
        /// Read.
        Viewer = "viewer",
        /// Write.
        Editor = "editor",
        /// Everything.
        Owner = "owner",
        /// Administer without reading.
        Manager = "manager",
    }
}

contract::words! {
    /// What every member of the company may do with a document.
    pub enum GeneralAccess {
        /// Nothing: only those with a share.
        Restricted = "restricted",
        /// Read.
        View = "company_view",
        /// Write.
        Edit = "company_edit",
    }
}

/// A document as it is stored, and what its shares give to the one who looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDocument {
    /// Minted when it was created.
    pub id: DocumentId,
    /// Whose it is.
    pub company: CompanyId,
    /// 1 to 200 characters.
    pub title: String,
    /// Number of its newest version.
    pub version: i32,
    /// The subject that owns it.
    pub owner: String,
    /// That subject's member row.
    pub owner_member: MemberId,
    /// For every member of the company.
    pub general_access: GeneralAccess,
    /// Whether editors may share it further.
    pub editors_can_share: bool,
    /// Best role of the shares that match the one who looks.
    pub share: Option<Role>,
    /// How many shares there are.
    pub share_count: i64,
    /// When it went into the trash.
    pub trashed_at: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it changed last.
    pub updated_at: Timestamp,
    /// The subject that changed it last.
    pub updated_by: String,
}

/// A document as a client sees it, without its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Document {
    id: DocumentId,
    company_id: CompanyId,
    title: String,
    version: i32,
    owner_member_id: MemberId,
    /// Not known here yet: names live in org, and no look-up by id is asked for them so far.
    owner_display_name: Option<String>,
    general_access: GeneralAccess,
    editors_can_share: bool,
    my_role: Option<Role>,
    shared_with_count: i64,
    trashed_at: Option<Timestamp>,
    created_at: Timestamp,
    updated_at: Timestamp,
    updated_by: String,
}

impl StoredDocument {
    /// The document for one looker.
    #[must_use]
    pub fn seen_by(self, looker: &Looker<'_>) -> Document {
        let my_role = self.role(looker);
        Document {
            id: self.id,
            company_id: self.company,
            title: self.title,
            version: self.version,
            owner_member_id: self.owner_member,
            owner_display_name: None,
            general_access: self.general_access,
            editors_can_share: self.editors_can_share,
            my_role,
            shared_with_count: self.share_count,
            trashed_at: self.trashed_at,
            created_at: self.created_at,
            updated_at: self.updated_at,
            updated_by: self.updated_by,
        }
    }

    /// The best role that opens the text; a manager without one administers only. In the trash nobody but owner and
    /// managers has a role.
    fn role(&self, looker: &Looker<'_>) -> Option<Role> {
        if self.owner == looker.subject.as_str() {
            return Some(Role::Owner);
        }
        let open = looker.member.filter(|_| self.trashed_at.is_none()).and_then(|_| self.opened_by());
        open.or_else(|| looker.manages.then_some(Role::Manager))
    }

    /// What shares and general access give to an active member who matches [`Self::share`].
    fn opened_by(&self) -> Option<Role> {
        match (self.share, self.general_access) {
            (Some(Role::Editor), _) | (_, GeneralAccess::Edit) => Some(Role::Editor),
            (Some(_), _) | (_, GeneralAccess::View) => Some(Role::Viewer),
            (None, GeneralAccess::Restricted) => None,
        }
    }
}
