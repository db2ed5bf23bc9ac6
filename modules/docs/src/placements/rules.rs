//! What can be placed in a folder, and where.

use contract::decision::ObjectRef;
use contract::fields::{Fields, FromBody};
use serde_json::{Value, json};
use service::ApiError;
use service::refusal::{broken, conflict};

use crate::documents;
use crate::documents::rules::DocumentId;
use crate::folders;
use crate::folders::rules::{FolderId, MAX_DEPTH};

/// Most folders in a tree that moves, itself included. A move rewrites the ancestors of each in one statement, which takes
/// a fifth of a second for so many; 40,000 exceed the statement timeout.
pub const MAX_MOVED: i64 = 2_000;

/// A child of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Child {
    /// A document.
    Document(DocumentId),
    /// A folder.
    Folder(FolderId),
}

impl Child {
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

    /// The authz object of the child.
    pub(crate) fn object(self) -> ObjectRef {
        match self {
            Self::Document(id) => documents::new::object(id),
            Self::Folder(id) => folders::row::object(id),
        }
    }

    /// The subject of the child's audit rows.
    #[must_use]
    pub fn audit_subject(self) -> String {
        match self {
            Self::Document(id) => documents::rules::subject_of(id),
            Self::Folder(id) => folders::rules::subject_of(id),
        }
    }

    /// The action of a move's audit row, and the payload's name for the folder.
    pub(super) const fn moved(self) -> (&'static str, &'static str) {
        match self {
            Self::Document(_) => ("document.moved", "folderId"),
            Self::Folder(_) => ("folder.moved", "parentId"),
        }
    }
}

/// The target of a move, as computed from folders and unfinished moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// The depth of the target folder; 1 is the top level.
    pub depth: i32,
    /// How many levels are moved: 1 for a folder without subfolders, 0 for a document.
    pub height: i32,
    /// How many folders are moved.
    pub folders: i64,
    /// Whether the target folder lies in the moved one.
    pub is_within: bool,
}

impl Site {
    /// Checks the limits on nesting and on the size of what is moved.
    ///
    /// # Errors
    /// 409 `FOLDER_TREE_TOO_LARGE`; 422 `FOLDER_CYCLE` or `FOLDER_TOO_DEEP`.
    pub fn check(self) -> Result<(), ApiError> {
        if self.is_within {
            return Err(broken("FOLDER_CYCLE", "a folder cannot contain itself", Value::Null));
        }
        check_size(self.folders)?;
        if self.depth + self.height > MAX_DEPTH {
            let details = json!({ "maxDepth": MAX_DEPTH });
            return Err(broken("FOLDER_TOO_DEEP", "folders are at most 8 deep", details));
        }
        Ok(())
    }
}

/// Checks the number of folders in a tree that moves.
///
/// # Errors
/// 409 `FOLDER_TREE_TOO_LARGE`.
pub(super) fn check_size(folders: i64) -> Result<(), ApiError> {
    if folders <= MAX_MOVED {
        return Ok(());
    }
    let details = json!({ "maxFolders": MAX_MOVED });
    Err(conflict("FOLDER_TREE_TOO_LARGE", "at most 2,000 folders move at once", details))
}

/// The body of a request to move a document.
pub(crate) struct DocumentMove(pub(crate) Option<FolderId>);

impl FromBody for DocumentMove {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self(fields.optional_uuid("folderId")?))
    }
}

/// The body of a request to move a folder.
pub(crate) struct FolderMove(pub(crate) Option<FolderId>);

impl FromBody for FolderMove {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self(fields.optional_uuid("parentId")?))
    }
}

/// 422 `FOLDER_UNKNOWN`.
pub(crate) fn unknown_folder() -> ApiError {
    broken("FOLDER_UNKNOWN", "the company has no such folder", Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_at_most_eight_deep_and_never_within_themselves() {
        let site = |depth, height, is_within| Site { depth, height, folders: 1, is_within }.check();
        assert!(site(7, 1, false).is_ok() && site(8, 0, false).is_ok() && site(1, 7, false).is_ok());
        for (depth, height) in [(8, 1), (7, 2), (1, 8)] {
            let refused = site(depth, height, false);
            let Err(ApiError::Unprocessable { details, .. }) = refused else { panic!("{refused:?}") };
            assert_eq!(details, json!({ "reason": "FOLDER_TOO_DEEP", "maxDepth": 8 }));
        }
        let refused = site(2, 1, true);
        let Err(ApiError::Unprocessable { details, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(details["reason"], "FOLDER_CYCLE");
        let refused = Site { depth: 1, height: 8, folders: MAX_MOVED + 1, is_within: false }.check();
        let Err(ApiError::Conflict { code, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(code, "FOLDER_TREE_TOO_LARGE", "the rest is not known then");
    }
}
