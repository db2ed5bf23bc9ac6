//! Regenerates the table in CONFIGURATION.md from the program. A test of `platform` compares the two.

use std::path::Path;

use anyhow::Context;

/// The markers around the table.
const MARKS: [&str; 2] = ["<!-- variables -->\n", "<!-- end of variables -->"];

pub(crate) fn renew(root: &Path) -> anyhow::Result<Vec<String>> {
    let table = crate::output(
        root,
        "cargo",
        &["run", "--quiet", "--package", "platform", "--", "config", "--markdown"],
    )?;
    let path = root.join("CONFIGURATION.md");
    let text = std::fs::read_to_string(&path)?;
    let [begin, end] = MARKS;
    let (before, rest) =
        text.split_once(begin).context("CONFIGURATION.md does not mark the table's start")?;
    let (_, after) = rest.split_once(end).context("CONFIGURATION.md does not mark the table's end")?;
    std::fs::write(&path, format!("{before}{begin}{table}{end}{after}"))?;
    Ok(Vec::new())
}
