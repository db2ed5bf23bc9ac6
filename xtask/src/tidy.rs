//! Sizes and headers: limits that nobody measures drift.

use std::path::Path;

/// Longest source file, tests aside.
const LONGEST: usize = 800;
/// Nine files in ten are at most this long.
const P90: usize = 400;
/// Half the files are at most this long.
const MEDIAN: usize = 150;

pub(crate) fn check(root: &Path) -> anyhow::Result<Vec<String>> {
    let listed = crate::output(
        root,
        "git",
        &["ls-files", "--cached", "--others", "--exclude-standard", "*.rs", "*.md"],
    )?;
    let mut problems = Vec::new();
    let mut sizes = Vec::new();
    for path in listed.lines().filter(|path| root.join(path).exists()) {
        let text = std::fs::read_to_string(root.join(path))?;
        match path {
            "ARCHITECTURE.md" => at_most(&mut problems, path, &text, 200),
            "STYLE.md" => at_most(&mut problems, path, &text, 90),
            _ if Path::new(path).extension().is_some_and(|extension| extension == "rs") => {
                header(&mut problems, path, &text);
                if !is_test(path) {
                    at_most(&mut problems, path, &text, LONGEST);
                    sizes.push(code_lines(&text));
                }
            }
            _ => {}
        }
    }
    distribution(&mut problems, sizes);
    Ok(problems)
}

fn header(problems: &mut Vec<String>, path: &str, text: &str) {
    if !text.starts_with("//!") {
        problems.push(format!(
            "{path}: does not open with //! (what it is, where it stands, what it must not do)"
        ));
    }
}

fn at_most(problems: &mut Vec<String>, path: &str, text: &str, most: usize) {
    let lines = code_lines(text);
    if lines > most {
        problems.push(format!("{path}: {lines} lines, at most {most}"));
    }
}

/// Lines up to the unit tests at the end of a file.
fn code_lines(text: &str) -> usize {
    text.lines().take_while(|line| *line != "#[cfg(test)]").count()
}

fn is_test(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.contains("/benches/")
}

fn distribution(problems: &mut Vec<String>, mut sizes: Vec<usize>) {
    sizes.sort_unstable();
    for (name, share, most) in [("median", 50, MEDIAN), ("90th percentile", 90, P90)] {
        let found = sizes.get(sizes.len() * share / 100).copied().unwrap_or_default();
        if found > most {
            problems.push(format!("the {name} of file lengths is {found} lines, at most {most}"));
        }
    }
}
