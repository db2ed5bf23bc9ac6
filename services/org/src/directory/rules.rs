//! Types of the directory and of memberships, and the search pattern. Pure.

use contract::id::{GroupId, MemberId, PositionId};
use contract::page::PageRequest;
use serde::Serialize;

/// Longest search text, in characters.
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

/// A subject's membership in a company. The same for a non-member as for an unknown company.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Membership {
    pub(super) is_member: bool,
    pub(super) is_active: bool,
    pub(super) member_id: Option<MemberId>,
}

/// A caller's membership, positions and groups in a company. As in the tuples, an inactive member has no positions and
/// no groups.
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

/// Most matches of a search that are counted and shown, so that a text that all members have costs no more than a rarer one.
pub(super) const MAX_FOUND: i64 = 10_000;

/// A search of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// An empty search: every member.
    Everyone,
    /// A search for a text.
    Text(Text),
}

/// A text to search for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Text {
    /// The text as requested.
    pub(super) typed: String,
    /// Its `ILIKE` pattern.
    pub(super) pattern: String,
    /// Whether it is a single letter or pair, so that a match by letters and pairs is exact.
    pub(super) is_exact: bool,
}

/// Most rows to the end of a page that are read as quickly as a row.
const MAX_BRIEF: i64 = 1_000;

impl Search {
    /// Whether the page reads a few rows of an index, however large the company is.
    pub(super) fn is_brief(&self, page: PageRequest) -> bool {
        *self == Self::Everyone && page.offset() + page.limit() <= MAX_BRIEF
    }

    /// The search that finds `text` anywhere in a field.
    pub(super) fn of(text: &str) -> Self {
        if text.is_empty() {
            return Self::Everyone;
        }
        let is_exact = text.chars().count() <= 2;
        Self::Text(Text { typed: text.to_owned(), pattern: contains(text), is_exact })
    }
}

/// The `ILIKE` pattern that finds `text` anywhere; `%`, `_` and `\` in `text` are literal.
fn contains(text: &str) -> String {
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

    #[test]
    fn the_first_thousand_members_are_brief_and_no_search_is() {
        let page = |page| PageRequest { page, page_size: 100 };
        assert!(Search::of("").is_brief(page(10)));
        assert!(!Search::of("").is_brief(page(11)));
        assert!(!Search::of("a").is_brief(page(1)) && !Search::of("abc").is_brief(page(1)));
    }

    #[test]
    fn a_letter_or_a_pair_is_found_exactly() {
        assert_eq!(Search::of(""), Search::Everyone);
        let of = |text, is_exact| {
            Search::Text(Text { typed: String::from(text), pattern: contains(text), is_exact })
        };
        for text in ["a", "ab", "%", "é%"] {
            assert_eq!(Search::of(text), of(text, true), "{text}");
        }
        for text in ["abc", "a.b", "é é", "x@example"] {
            assert_eq!(Search::of(text), of(text, false), "{text}");
        }
    }
}
