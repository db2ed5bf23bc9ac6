//! License texts: checks that a module's `LICENSE` is the text of the license that its manifest names. White space does
//! not matter, every word does; the MIT text begins with the author's own copyright lines.

/// Name of the file.
pub const FILE: &str = "LICENSE";

use crate::FieldProblem;

/// Largest accepted license file, in bytes: Apache-2.0 has eleven thousand.
const MAX_BYTES: usize = 1 << 16;
/// The canonical text of Apache-2.0.
pub const APACHE_2_0: &str = include_str!("Apache-2.0.txt");
const MIT: &str = include_str!("MIT.txt");
const MIT_TITLES: [&str; 3] = ["MIT License", "The MIT License", "The MIT License (MIT)"];

/// Whether `text` is the canonical text of the license `spdx`.
#[must_use]
pub fn check(spdx: &str, text: &str) -> Option<FieldProblem> {
    let right = text.len() <= MAX_BYTES
        && match spdx {
            "Apache-2.0" => words(text).eq(words(APACHE_2_0)),
            "MIT" => is_mit(text),
            // The manifest's own check refuses any other.
            _ => false,
        };
    let message = || format!("the canonical text of {spdx}, which the manifest names");
    (!right).then(|| FieldProblem::new("", "license_text", message()))
}

fn is_mit(text: &str) -> bool {
    let Some(begin) = text.find("Permission is hereby granted") else { return false };
    let (head, body) = text.split_at(begin);
    let lines: Vec<&str> = head.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    // The title is optional.
    let titles = usize::from(lines.first().is_some_and(|line| MIT_TITLES.contains(line)));
    let owners = lines.len() > titles;
    let owned = owners && lines.iter().skip(titles).all(|line| line.starts_with("Copyright "));
    owned && words(body).eq(words(MIT))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(spdx: &str, text: &str) -> bool {
        check(spdx, text).is_some_and(|problem| problem.rule == "license_text")
    }

    #[test]
    fn apache_is_apache_whatever_its_white_space() {
        assert!(!refused("Apache-2.0", APACHE_2_0));
        assert!(!refused("Apache-2.0", &APACHE_2_0.replace('\n', "\r\n")));
        assert!(refused("Apache-2.0", &APACHE_2_0.replace("royalty-free", "royalty-bearing")));
        assert!(refused("Apache-2.0", ""));
        assert!(refused("Apache-2.0", &" ".repeat(MAX_BYTES + 1)));
    }

    #[test]
    fn mit_has_copyright_lines_of_its_own_and_nothing_else() {
        let head = "MIT License\n\nCopyright (c) 2026 Somebody\n\n";
        assert!(!refused("MIT", &format!("{head}{MIT}")));
        assert!(!refused("MIT", &format!("Copyright (c) 2026 A\nCopyright (c) 2027 B\n\n{MIT}")));
        assert!(refused("MIT", MIT), "no copyright line");
        assert!(refused("MIT", &format!("{head}Not for sale.\n{MIT}")));
        assert!(refused("MIT", &format!("{head}{MIT}\nNot for sale.")));
        assert!(refused("MIT", APACHE_2_0));
    }
}
