//! The workspace that receives a new module: its `Cargo.toml` as text, to keep comments and order, and the manifests of
//! its modules.

use std::fs;
use std::path::{Path, PathBuf};

use contract::manifest::{self, Manifest};

use crate::stop::Stop;

/// Name of the file.
pub(super) const FILE: &str = "Cargo.toml";
/// Start of a member's line.
const MEMBER: &str = "    \"modules/";
/// Start of the dependency after the modules' dependencies.
const AFTER_MODULES: &str = "platform = { path = ";

/// Names that a crate cannot have: Rust's keywords, and names that are always taken.
const WORDS: [&str; 62] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "str",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "union",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
    "bool",
    "char",
    "e2e",
    "xtask",
];

/// A workspace on disk.
pub(super) struct Workspace {
    pub(super) root: PathBuf,
    text: String,
}

impl Workspace {
    /// Reads the workspace whose root is `here`.
    pub(super) fn read(here: &Path) -> Result<Self, Stop> {
        let path = here.join(FILE);
        let text = fs::read_to_string(&path).unwrap_or_default();
        let is_ours = text.contains("[workspace]") && text.contains(MEMBER) && text.contains(AFTER_MODULES);
        if is_ours {
            return Ok(Self { root: here.to_owned(), text });
        }
        Err(Stop::Unfit(format!(
            "{} is not the platform's: run this in the root of its workspace",
            path.display()
        )))
    }

    /// Whether a dependency or a member has this name.
    pub(super) fn knows_crate(&self, key: &str) -> bool {
        let dashed = key.replace('_', "-");
        let begins = |line: &str, name: &str| {
            line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(['=', '.']))
        };
        self.text.lines().any(|line| begins(line, key) || begins(line, &dashed))
    }

    /// Returns the manifests of all modules, including the examples; skips those that cannot be read.
    pub(super) fn manifests(&self) -> Vec<Manifest> {
        let entries =
            |parent| fs::read_dir(self.root.join(parent)).into_iter().flatten().filter_map(Result::ok);
        let manifest = |folder: PathBuf| {
            let text = fs::read_to_string(folder.join(manifest::FILE)).ok()?;
            manifest::parse(&text).ok()
        };
        ["modules", "examples"]
            .into_iter()
            .flat_map(entries)
            .filter_map(|entry| manifest(entry.path()))
            .collect()
    }

    /// Returns the file with the module added as a member and as a workspace dependency.
    pub(super) fn with_member(&self, key: &str) -> Result<String, Stop> {
        let last = self.text.lines().rfind(|line| line.starts_with(MEMBER));
        let before = self.text.lines().find(|line| line.starts_with(AFTER_MODULES));
        let (Some(last), Some(before)) = (last, before) else {
            return Err(Stop::Unfit(format!("{FILE}: no line begins with {MEMBER} or {AFTER_MODULES}")));
        };
        let member = format!("{last}\n{MEMBER}{key}\",");
        let dependency = format!("{key} = {{ path = \"modules/{key}\" }}\n{before}");
        Ok(self.text.replacen(last, &member, 1).replacen(before, &dependency, 1))
    }
}

/// Whether no crate can have this name.
pub(super) fn is_word_of_rust(key: &str) -> bool {
    WORDS.contains(&key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workspace() -> Workspace {
        let text = include_str!("../../../Cargo.toml").to_owned();
        Workspace { root: PathBuf::new(), text }
    }

    #[test]
    fn a_member_is_added_once_in_both_places() {
        let text = workspace().with_member("crm").expect("the workspace's own file");
        assert_eq!(text.matches("crm").count(), 3);
        assert!(text.contains("\n    \"modules/crm\",\n"), "{text}");
        assert!(text.contains("\ncrm = { path = \"modules/crm\" }\nplatform = "), "{text}");
    }

    #[test]
    fn names_of_crates_are_taken() {
        for taken in ["docs", "axum", "time", "uuid", "sqlx", "futures_util", "service"] {
            assert!(workspace().knows_crate(taken), "{taken}");
        }
        for free in ["crm", "doc", "tim"] {
            assert!(!workspace().knows_crate(free), "{free}");
        }
        assert!(is_word_of_rust("match") && is_word_of_rust("test") && !is_word_of_rust("tests"));
    }
}
