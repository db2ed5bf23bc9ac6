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

/// What the directory is searched for: an `ILIKE` pattern, by how the database finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// Nothing: every member.
    Everyone,
    /// A text too short for its trigrams.
    Short(Short),
    /// A text of at least one whole trigram.
    Long(String),
}

/// A text without a trigram: found by its letters and their pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Short {
    /// As it was asked for.
    pub(super) text: String,
    /// The `ILIKE` pattern that finds it.
    pub(super) pattern: String,
    /// Whether whatever has its letters and pairs has the text, too.
    pub(super) is_one_pair: bool,
}

impl Short {
    fn of(text: &str) -> Self {
        let is_one_pair = text.chars().count() <= 2;
        Self { text: text.to_owned(), pattern: contains(text), is_one_pair }
    }
}

/// Letters and digits in a row that make a trigram.
const TRIGRAM: usize = 3;

impl Search {
    /// For `text` anywhere in a field.
    pub(super) fn of(text: &str) -> Self {
        let words = text.split(|letter: char| !letter.is_alphanumeric());
        let longest = words.map(|word| word.chars().count()).max().unwrap_or_default();
        match longest {
            0 if text.is_empty() => Self::Everyone,
            0..TRIGRAM => Self::Short(Short::of(text)),
            _ => Self::Long(contains(text)),
        }
    }
}

/// The `ILIKE` pattern that finds `text` anywhere, its own `%`, `_` and `\` taken literally.
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
    fn two_letters_are_one_pair_and_three_are_not() {
        for (text, is_one_pair) in [("a", true), ("ab", true), ("é%", true), ("a.b", false), ("ab cd", false)]
        {
            assert_eq!(Short::of(text).is_one_pair, is_one_pair, "{text}");
        }
    }

    #[test]
    fn a_search_is_long_when_it_holds_a_trigram() {
        assert_eq!(Search::of(""), Search::Everyone);
        for short in ["a", "ab", "%", "a.b-c", "ab cd", "é é"] {
            assert!(
                matches!(Search::of(short), Search::Short(found) if found == Short::of(short)),
                "{short}"
            );
        }
        for long in ["abc", "ab cde", "x@exa", "ääö", "a.123"] {
            assert_eq!(Search::of(long), Search::Long(contains(long)), "{long}");
        }
    }
}
