//! A list of every rule of the module contract that a file can violate: a stable id, the file, the path, the identifier
//! of its problems, and a description. The parsers do not read this list; tests compare both: each rule has an
//! accepting and a refusing case, and no parser reports a problem that is not listed.

mod files;
mod fragment;
mod manifest;

use crate::FieldProblem;
use crate::fence;

pub use files::{APP, BETWEEN, FRONTEND, LICENSE, OPENAPI};
pub use fragment::{FRAGMENT, RELATIONS};
pub use manifest::MANIFEST;

/// Prefix of the ids of the fence's rules, which [`fence::Rule::ALL`] lists.
pub const MIGRATIONS: &str = "migrations";

/// One rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Stable, and unique across all files: `manifest.port`.
    pub id: &'static str,
    /// Path in the file, such as `dependencies[].moduleKey`; `*` is one name, `**` any path.
    pub path: &'static str,
    /// `rule` in its problems.
    pub word: &'static str,
    /// Description.
    pub says: &'static str,
}

impl Rule {
    pub(super) const fn new(
        id: &'static str,
        path: &'static str,
        word: &'static str,
        says: &'static str,
    ) -> Self {
        Self { id, path, word, says }
    }
}

/// The rule among `rules` that a problem violates: the first match, so general rules come last.
#[must_use]
pub fn of<'a>(rules: &'a [Rule], problem: &FieldProblem) -> Option<&'a Rule> {
    let way = steps(&problem.path);
    let way: Vec<&str> = way.iter().map(String::as_str).collect();
    rules.iter().find(|rule| {
        let pattern = steps(rule.path);
        let pattern: Vec<&str> = pattern.iter().map(String::as_str).collect();
        rule.word == problem.rule && fits(&pattern, &way)
    })
}

/// The id of a rule of the fence.
#[must_use]
pub fn id_of(rule: fence::Rule) -> String {
    format!("{MIGRATIONS}.{rule}")
}

/// `a[3].b` → `a`, `[]`, `b`.
fn steps(path: &str) -> Vec<String> {
    let mut steps = Vec::new();
    for name in path.split('.').filter(|name| !name.is_empty()) {
        let mut parts = name.split('[');
        steps.extend(parts.next().filter(|first| !first.is_empty()).map(ToOwned::to_owned));
        steps.extend(parts.map(|_| "[]".to_owned()));
    }
    steps
}

fn fits(pattern: &[&str], way: &[&str]) -> bool {
    match (pattern.split_first(), way.split_first()) {
        (None, None) => true,
        (Some((&"**", rest)), _) => {
            (0..=way.len()).any(|skipped| way.get(skipped..).is_some_and(|way| fits(rest, way)))
        }
        (Some((&"*", rest)), Some((_, left))) => fits(rest, left),
        (Some((name, rest)), Some((found, left))) => name == found && fits(rest, left),
        (Some(_), None) | (None, Some(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_no_rule_stands_behind_one_that_takes_its_problems() {
        let lists = [MANIFEST, FRAGMENT, RELATIONS, OPENAPI, FRONTEND, LICENSE, BETWEEN, APP];
        let ids: Vec<&str> = lists.iter().flat_map(|list| list.iter().map(|rule| rule.id)).collect();
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        for list in lists {
            for rule in list {
                let problem =
                    FieldProblem::new(rule.path.replace("**.", "a.b.").replace("**", "a"), rule.word, "");
                assert_eq!(of(list, &problem).map(|found| found.id), Some(rule.id));
            }
        }
    }

    #[test]
    fn a_path_fits_its_pattern() {
        let found = |path: &str, way: &str| {
            let rules = [Rule::new("a", "", "w", "")];
            let rules = rules.map(|rule| Rule { path: Box::leak(path.to_owned().into_boxed_str()), ..rule });
            of(&rules, &FieldProblem::new(way, "w", "")).is_some()
        };
        assert!(found("a[].b", "a[12].b") && !found("a[].b", "a.b") && !found("a[].b", "a[1].c"));
        assert!(found("*.*", "x.y") && !found("*.*", "x") && !found("*.*", "x.y.z"));
        assert!(found("**.this", "deal.seen.union[0].union[3].this") && found("**", "") && !found("", "a"));
    }
}
