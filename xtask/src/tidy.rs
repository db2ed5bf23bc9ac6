//! Limits on file sizes, file headers, bare tasks and calls of sqlx's `begin`, which would drift without a check.

use std::path::Path;

/// Most lines of a source file, without its unit tests.
const LONGEST: usize = 800;
/// Most lines at the 90th percentile.
const P90: usize = 400;
/// Most lines at the median.
const MEDIAN: usize = 150;
/// Files with tasks that are not workers, each with a reason in the file. All other tasks of services and modules
/// belong to `Workers`, which a stop waits for.
const BARE_TASKS: [&str; 3] = [
    // The feed and the reader of an idle log: the engine also runs without a service.
    "services/authz/src/engine/memory/mod.rs",
    // A comparison that runs alongside a decision.
    "services/authz/src/engine/memory/sample.rs",
    // Requests in flight at a stop wait for it.
    "services/authz/src/denials.rs",
];

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
                    tasks(&mut problems, path, &text);
                    transactions(&mut problems, path, &text);
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

fn tasks(problems: &mut Vec<String>, path: &str, text: &str) {
    let is_service = ["services/", "modules/", "examples/"].iter().any(|folder| path.starts_with(folder));
    let code = text.lines().take_while(|line| *line != "#[cfg(test)]");
    if is_service
        && !BARE_TASKS.contains(&path)
        && code.into_iter().any(|line| line.contains("tokio::spawn("))
    {
        problems.push(format!("{path}: a bare tokio::spawn; background work belongs to service::Workers"));
    }
}

/// sqlx's `begin` can leave the connection in a transaction if its caller is dropped.
fn transactions(problems: &mut Vec<String>, path: &str, text: &str) {
    let calls = [".begin_with(", "pool.begin("];
    if !path.starts_with("xtask/") && text.lines().any(|line| calls.iter().any(|call| line.contains(call))) {
        problems.push(format!("{path}: begin a transaction on a pool with service::transaction::begin"));
    }
}

fn at_most(problems: &mut Vec<String>, path: &str, text: &str, most: usize) {
    let lines = code_lines(text);
    if lines > most {
        problems.push(format!("{path}: {lines} lines, at most {most}"));
    }
}

/// Lines up to the unit tests at the end of a file.
pub(crate) fn code_lines(text: &str) -> usize {
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
