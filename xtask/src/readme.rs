//! Renews the README's table of variables from the program itself. A test of `platform` compares the two.

use std::path::Path;

use anyhow::Context;

/// What stands around the table.
const MARKS: [&str; 2] = ["<!-- variables -->\n", "<!-- end of variables -->"];

pub(crate) fn renew(root: &Path) -> anyhow::Result<Vec<String>> {
    let table = crate::output(
        root,
        "cargo",
        &["run", "--quiet", "--package", "platform", "--", "config", "--markdown"],
    )?;
    let path = root.join("README.md");
    let text = std::fs::read_to_string(&path)?;
    let [begin, end] = MARKS;
    let (before, rest) = text.split_once(begin).context("README.md has no place for the table")?;
    let (_, after) = rest.split_once(end).context("the table in README.md has no end")?;
    std::fs::write(&path, format!("{before}{begin}{table}{end}{after}"))?;
    Ok(Vec::new())
}
