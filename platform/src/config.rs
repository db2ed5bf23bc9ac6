//! `platform config`: every variable, one line each; and the same as the table of CONFIGURATION.md.

use contract::settings::Kind;
use contract::{Settings, Variable};

use crate::console;
use crate::stop::Stop;
use crate::variables::{all, fits};

/// One printed line.
struct Row {
    name: String,
    default: &'static str,
    current: String,
    unit: &'static str,
    meaning: &'static str,
}

/// Prints the table; secrets are masked.
#[expect(clippy::unnecessary_wraps, reason = "every command gives the same kind of end")]
pub(crate) fn print(settings: &Settings) -> Result<(), Stop> {
    let rows: Vec<Row> = all().values().flat_map(|variable| rows(variable, settings)).collect();
    let width = |column: fn(&Row) -> &str, head: &str| {
        rows.iter().map(|row| column(row).chars().count()).max().unwrap_or_default().max(head.len())
    };
    let name = width(|row| &row.name, "NAME");
    let default = width(|row| row.default, "DEFAULT");
    let current = width(|row| &row.current, "CURRENT");
    let unit = width(|row| row.unit, "UNIT");
    let line = |cells: [&str; 5]| {
        let [first, second, third, fourth, last] = cells;
        console::result(&format!(
            "{first:name$}  {second:default$}  {third:current$}  {fourth:unit$}  {last}"
        ));
    };
    line(["NAME", "DEFAULT", "CURRENT", "UNIT", "MEANING"]);
    for row in &rows {
        line([&row.name, row.default, &row.current, row.unit, row.meaning]);
    }
    Ok(())
}

/// The table of CONFIGURATION.md: the same on every machine, so without present values.
#[expect(clippy::unnecessary_wraps, reason = "every command gives the same kind of end")]
pub(crate) fn markdown() -> Result<(), Stop> {
    console::result("| variable | default | form | meaning |\n|---|---|---|---|");
    for Variable { name, default, kind, meaning } in all().values() {
        let default = default.map_or_else(|| "-".to_owned(), |default| format!("`{}`", escaped(default)));
        console::result(&format!("| `{name}` | {default} | {} | {} |", kind.unit(), escaped(meaning)));
    }
    Ok(())
}

/// A bar would end the cell, and a name in angle brackets is no tag.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

/// The variable's own line; a family has one more for each member that is set.
fn rows(variable: &Variable, settings: &Settings) -> Vec<Row> {
    let row = |name: &str, set: Option<&str>| Row {
        name: name.to_owned(),
        default: variable.default.unwrap_or("-"),
        current: shown(variable, set),
        unit: variable.kind.unit(),
        meaning: variable.meaning,
    };
    let mut found = vec![row(variable.name, settings.raw(variable.name))];
    if variable.name.contains('<') {
        let members = settings.iter().filter(|(name, _)| fits(name, variable.name));
        found.extend(members.map(|(name, value)| row(name, Some(value))));
    }
    found
}

fn shown(variable: &Variable, set: Option<&str>) -> String {
    match set {
        Some(_) if variable.kind == Kind::Secret => "***".to_owned(),
        Some(value) => value.to_owned(),
        None => variable.default.unwrap_or("-").to_owned(),
    }
}
