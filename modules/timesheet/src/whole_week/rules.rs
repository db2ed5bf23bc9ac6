//! Turns the rows of a week into its entries. Rows are checked only against each other, because entries without a row
//! are dropped.

use std::collections::{BTreeMap, BTreeSet};

use contract::fields::{Fields, FromBody};
use contract::{Day, FieldProblem};
use serde::Serialize;
use serde_json::{Map, Value, json};
use service::{ApiError, changes};

use crate::entries::rules::{
    Content, EntryBody, EntryId, Hours, Sums, check_billable_day, check_day, check_entry,
};
use crate::projects::rules::{ProjectId, Status as ProjectStatus};
use crate::settings::rules::TimeRules;
use crate::weeks::rules::{Week, week};

/// Most rows of a week: fifty projects on each day, more than anyone works on.
pub const MAX_ROWS: usize = 350;

/// The body of a week: its rows, at most one per project and day.
#[derive(Clone, Debug)]
pub struct WeekBody {
    /// The week.
    pub week: Week,
    /// All rows of the week.
    pub rows: Vec<EntryBody>,
}

impl FromBody for WeekBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let week = week(fields, "weekStart");
        let rows = fields.objects::<EntryBody>("entries", MAX_ROWS);
        let (week, rows) = (week?, rows?);
        let mut seen = BTreeSet::new();
        for (index, row) in rows.iter().enumerate() {
            if Week::of(row.day) != week {
                fields.refuse::<()>(&format!("entries[{index}].entryDate"), "week", "a day of the week");
            }
            if !seen.insert((row.day, row.project)) {
                fields.refuse::<()>(&format!("entries[{index}]"), "duplicate", "one row per project and day");
            }
        }
        Some(Self { week, rows })
    }
}

impl WeekBody {
    /// The projects of the rows, in order and without duplicates.
    #[must_use]
    pub fn projects(&self) -> Vec<ProjectId> {
        self.rows.iter().map(|row| row.project).collect::<BTreeSet<_>>().into_iter().collect()
    }
}

/// The entries of a member's week, by day and project.
pub type Entries = BTreeMap<(Day, ProjectId), (EntryId, Content)>;

/// Maps entries by day and project.
pub fn keyed(entries: impl IntoIterator<Item = (EntryId, Content)>) -> Entries {
    entries.into_iter().map(|(id, entry)| ((entry.entry_date, entry.project_id), (id, entry))).collect()
}

/// Builds the new entries from the rows and the entries before, whose ids are kept. Billable hours that are given count
/// first; the rest of the day goes to the rows without, in their order.
///
/// # Errors
/// Every rule that a row breaks, with the row's position.
pub fn planned(
    body: &WeekBody,
    before: &Entries,
    projects: &BTreeMap<ProjectId, ProjectStatus>,
    rules: &TimeRules,
) -> Result<Vec<(EntryId, Content)>, Vec<FieldProblem>> {
    let old = |row: &EntryBody| before.get(&(row.day, row.project));
    let mut said: BTreeMap<Day, Hours> = BTreeMap::new();
    for row in &body.rows {
        let billable = row.billable(old(row).map(|(_, content)| content), rules).unwrap_or_default();
        let day = said.entry(row.day).or_default();
        *day = day.plus(billable);
    }
    let (mut planned, mut problems) = (Vec::new(), Vec::new());
    let mut days: BTreeMap<Day, Sums> = BTreeMap::new();
    for (index, row) in body.rows.iter().enumerate() {
        let (id, old) =
            old(row).map_or_else(|| (EntryId::mint(), None), |(id, content)| (*id, Some(content)));
        let taken = said.entry(row.day).or_default();
        let content = row.content(old, Sums { real: Hours::default(), billable: *taken }, rules);
        if row.billable(old, rules).is_none() {
            *taken = taken.plus(content.billable_hours);
        }
        let sums = days.entry(row.day).or_default();
        problems.extend(checked(index, &content, old, projects, sums, rules));
        planned.push((id, content));
    }
    if problems.is_empty() { Ok(planned) } else { Err(problems) }
}

/// Returns the rules that a row breaks; a day with too many hours is reported at the row that exceeds the limit.
fn checked(
    index: usize,
    content: &Content,
    old: Option<&Content>,
    projects: &BTreeMap<ProjectId, ProjectStatus>,
    sums: &mut Sums,
    rules: &TimeRules,
) -> Vec<FieldProblem> {
    let was_right = check_day(content.entry_date, sums.real).is_ok();
    let was_billable = check_billable_day(content.entry_date, sums.billable, rules).is_ok();
    sums.real = sums.real.plus(content.real_hours);
    sums.billable = sums.billable.plus(content.billable_hours);
    let verdicts = [
        content.check_project(projects.get(&content.project_id).copied(), old),
        check_entry(content, rules),
        check_day(content.entry_date, sums.real)
            .or_else(|broken| if was_right { Err(broken) } else { Ok(()) }),
        check_billable_day(content.entry_date, sums.billable, rules)
            .or_else(|broken| if was_billable { Err(broken) } else { Ok(()) }),
    ];
    let broken = verdicts.into_iter().filter_map(Result::err);
    broken.map(|broken| broken.at(format!("entries[{index}]"))).collect()
}

/// The changes that a saved week makes.
#[derive(Debug)]
pub struct Difference {
    /// Entries that are new or changed.
    pub written: Vec<(EntryId, Content)>,
    /// Entries that are removed.
    pub dropped: Vec<EntryId>,
    /// The changes for the audit row.
    pub told: Vec<Value>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Told<'a> {
    entry_id: EntryId,
    project_id: ProjectId,
    entry_date: Day,
    change: &'a str,
    #[serde(flatten)]
    fields: Map<String, Value>,
}

/// Compares the week's new entries with the old ones.
///
/// # Errors
/// 500 when an entry cannot be serialized as JSON.
pub fn difference(before: &Entries, after: &[(EntryId, Content)]) -> Result<Difference, ApiError> {
    let mut found = Difference { written: Vec::new(), dropped: Vec::new(), told: Vec::new() };
    for (id, entry) in after {
        let old = before.get(&(entry.entry_date, entry.project_id)).map(|(_, old)| old);
        let fields = changes(old, entry)?;
        if !fields.is_empty() {
            let change = if old.is_some() { "changed" } else { "added" };
            found.told.push(told(*id, entry, change, fields)?);
            found.written.push((*id, entry.clone()));
        }
    }
    let kept: BTreeSet<EntryId> = after.iter().map(|(id, _)| *id).collect();
    for (id, entry) in before.values().filter(|(id, _)| !kept.contains(id)) {
        let gone = json!({ "realHours": { "from": entry.real_hours, "to": null },
            "billableHours": { "from": entry.billable_hours, "to": null } });
        let Value::Object(fields) = gone else { continue };
        found.told.push(told(*id, entry, "dropped", fields)?);
        found.dropped.push(*id);
    }
    Ok(found)
}

fn told(
    id: EntryId,
    entry: &Content,
    change: &str,
    mut fields: Map<String, Value>,
) -> Result<Value, ApiError> {
    // The project and day of an entry never change; they are given beside the changes.
    fields.retain(|name, _| !["projectId", "entryDate"].contains(&name.as_str()));
    let (project_id, entry_date) = (entry.project_id, entry.entry_date);
    let told = Told { entry_id: id, project_id, entry_date, change, fields };
    serde_json::to_value(told).map_err(ApiError::internal)
}
