//! Versions and ranges: strict semantic versions, compared without their build metadata, and ranges in the syntax of
//! Rust's `semver`, where white space between comparators counts as a comma.

use std::cmp::Ordering;

use semver::{Version, VersionReq};

/// Longest version or range, in bytes.
const MAX_LENGTH: usize = 200;
/// The valid form of a range.
pub const RANGE_RULE: &str =
    "comparators ^ ~ >= > <= < = * joined by commas, as \"^1.2\" or \">=1.2, <2\"; no ||";

/// Parses a strict semantic version.
#[must_use]
pub fn parse(text: &str) -> Option<Version> {
    if text.len() > MAX_LENGTH { None } else { Version::parse(text).ok() }
}

/// Parses a range of versions.
#[must_use]
pub fn parse_range(text: &str) -> Option<VersionReq> {
    if text.len() > MAX_LENGTH || text.contains("||") {
        return None;
    }
    VersionReq::parse(&with_commas(text)).ok()
}

/// Compares two versions; build metadata does not count.
#[must_use]
pub fn compare(left: &Version, right: &Version) -> Ordering {
    left.cmp_precedence(right)
}

/// `>= 1.2 <2` → `>=1.2,<2`: a separate operator belongs to the version that follows it.
fn with_commas(text: &str) -> String {
    let mut comparators = Vec::new();
    for part in text.split(',') {
        let mut operator = String::new();
        for word in part.split_whitespace() {
            operator.push_str(word);
            if !word.bytes().all(|byte| b"^~<>=".contains(&byte)) {
                comparators.push(std::mem::take(&mut operator));
            }
        }
        // An operator without a version, or nothing between two commas: left for the parser to refuse.
        if !operator.is_empty() || part.trim().is_empty() {
            comparators.push(operator);
        }
    }
    comparators.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(range: &str, version: &str) -> bool {
        let range = parse_range(range).unwrap_or_else(|| panic!("{range}"));
        range.matches(&parse(version).unwrap_or_else(|| panic!("{version}")))
    }

    #[test]
    fn ranges_match_as_semver_does_and_spaces_join_like_commas() {
        for range in ["^1.2", "1.2", ">=1.2, <2", ">=1.2 <2", ">= 1.2 < 2", "~1.5", "1.*", "*", "=1.5.0"] {
            assert!(matches(range, "1.5.0"), "{range}");
        }
        assert!(!matches(">=1.2 <1.5", "1.5.0"));
        assert!(!matches("*", "1.5.0-rc.1"));
        for bad in ["", " ", "^1 || ^2", "1.2.3.4", ">=", ">=1,,<2", "x y", &"1".repeat(MAX_LENGTH + 1)] {
            assert!(parse_range(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn ten_is_more_than_nine_and_build_metadata_does_not_count() {
        let version = |text: &str| parse(text).expect("a version");
        assert_eq!(compare(&version("1.10.0"), &version("1.9.0")), Ordering::Greater);
        assert_eq!(compare(&version("1.0.0+b"), &version("1.0.0+a")), Ordering::Equal);
        assert_eq!(compare(&version("1.0.0-rc.1"), &version("1.0.0")), Ordering::Less);
        for bad in ["1", "1.0", "v1.0.0", "01.0.0", "1.0.0 ", ""] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}
