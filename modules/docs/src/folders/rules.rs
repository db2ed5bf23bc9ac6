//! Folders: their fields, limits and request bodies.

use contract::fields::{Fields, FromBody, Text};
use contract::id::{CompanyId, MemberId};
use contract::{Subject, Timestamp};
use serde::Serialize;
use serde_json::{Value, json};
use service::ApiError;

use crate::documents::rules::Role;

contract::typed_id!(
    /// A folder of one company.
    FolderId
);

/// Deepest nesting of folders. A decision follows `parent` once per level.
pub const MAX_DEPTH: i32 = 8;
/// Most folders that one member owns in a company: each takes part in the member's lists, and is three tuples that authz
/// holds in memory.
pub const MAX_OWNED: i64 = 5_000;
/// Longest name in characters: one line of a list.
pub const MAX_NAME: usize = 200;

contract::words! {
    /// Which folders to list.
    pub enum View {
        /// Folders that the caller owns or has a share of, and the folders in them.
        Visible = "visible",
        /// Every folder of the company.
        All = "all",
    }
}

impl View {
    /// The view that only administrators of the module have.
    pub const OF_MANAGERS: &'static [&'static str] = &[Self::All.word()];
}

/// A folder as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredFolder {
    /// Minted at creation.
    pub id: FolderId,
    /// The company that it belongs to.
    pub company: CompanyId,
    /// 1 to [`MAX_NAME`] characters.
    pub name: String,
    /// The folder that contains it.
    pub parent: Option<FolderId>,
    /// The subject that owns it.
    pub owner: Subject,
    /// That subject's member row.
    pub owner_member: MemberId,
    /// That member's name at the time of creation.
    pub owner_label: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last renamed or moved.
    pub updated_at: Timestamp,
}

/// A folder as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Folder {
    id: FolderId,
    company_id: CompanyId,
    name: String,
    parent_id: Option<FolderId>,
    owner_member_id: MemberId,
    owner_display_name: Option<String>,
    my_role: Option<Role>,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl StoredFolder {
    /// Renders the folder for a caller with this role; `owner_name` is the owner's current name from org.
    #[must_use]
    pub fn shown(self, my_role: Option<Role>, owner_name: Option<String>) -> Folder {
        Folder {
            id: self.id,
            company_id: self.company,
            name: self.name,
            parent_id: self.parent,
            owner_member_id: self.owner_member,
            owner_display_name: owner_name.or(self.owner_label),
            my_role,
            created_at: self.created_at,
            updated_at: self.updated_at,
        }
    }
}

/// The subject of a folder's audit rows.
#[must_use]
pub fn subject_of(id: FolderId) -> String {
    format!("folder:{id}")
}

/// 404 for an unknown folder.
#[must_use]
pub fn unknown() -> ApiError {
    ApiError::NotFound("folder".into())
}

/// The body of a request to create a folder.
pub(crate) struct CreateBody {
    pub(crate) name: String,
    pub(crate) parent: Option<FolderId>,
}

impl CreateBody {
    /// The canonical form that an idempotency key is compared by.
    pub(crate) fn canonical(&self) -> Value {
        json!({ "name": self.name, "parentId": self.parent })
    }
}

impl FromBody for CreateBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let name = fields.text("name", Text::title(MAX_NAME));
        let parent = fields.optional_uuid("parentId");
        Some(Self { name: name?, parent: parent? })
    }
}

/// The body of a request to rename a folder.
pub(crate) struct RenameBody(pub(crate) String);

impl FromBody for RenameBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self(fields.text("name", Text::title(MAX_NAME))?))
    }
}
