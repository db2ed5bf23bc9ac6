//! Shapes of the directory and of one subject's membership, and the search pattern. Pure.

use contract::id::{GroupId, MemberId, PositionId};
use serde::Serialize;

/// Longest search text.
pub(super) const MAX_SEARCH: usize = 100;

/// `MemberDirectoryEntry` of the specification.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemberDirectoryEntry {
    pub(super) id: MemberId,
    pub(super) display_name: String,
    pub(super) email: Option<String>,
    pub(super) has_linked_user: bool,
}

/// One subject in one company; a stranger in any company, known or not, looks the same.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Membership {
    pub(super) is_member: bool,
    pub(super) is_active: bool,
    pub(super) member_id: Option<MemberId>,
}

/// A caller's place in a company. An inactive member holds no position and is in no group, as in the tuples.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MemberContext {
    #[serde(flatten)]
    pub(super) membership: Membership,
    pub(super) display_name: Option<String>,
    pub(super) email: Option<String>,
    pub(super) position_ids: Vec<PositionId>,
    pub(super) group_ids: Vec<GroupId>,
}

/// The `ILIKE` pattern that finds `text` anywhere, its own `%`, `_` and `\` taken literally.
pub(super) fn contains(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len() + 2);
    pattern.push('%');
    for letter in text.chars() {
        if matches!(letter, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(letter);
    }
    pattern.push('%');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_of_the_searcher_are_letters() {
        assert_eq!(contains("a%b_c\\"), "%a\\%b\\_c\\\\%");
        assert_eq!(contains(""), "%%");
    }
}
