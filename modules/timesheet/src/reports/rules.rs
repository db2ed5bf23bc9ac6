//! Reports: their parameters and rows.

use std::collections::BTreeMap;

use contract::Day;
use contract::id::MemberId;
use http::HeaderMap;
use http::header::ACCEPT;
use serde::Serialize;
use service::{ApiError, Query};

use crate::entries::rules::{EntryStatus, HourSum};
use crate::projects::rules::ProjectId;
use crate::submission_entries::rules::Totals;

/// Most days of a report: a leap year.
pub const MAX_DAYS: i64 = 366;
/// Most rows of a file: about five megabytes, more than a spreadsheet handles well.
pub const MAX_FILE_ROWS: i64 = 50_000;

/// What rows are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grouping {
    /// One row per member.
    pub member: bool,
    /// One row per project.
    pub project: bool,
    /// One row per day.
    pub day: bool,
}

/// The parameters of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The first day.
    pub from: Day,
    /// The last day, included.
    pub to: Day,
    /// What rows are grouped by.
    pub by: Grouping,
    /// Only hours of weeks with these statuses; `None` for all.
    pub statuses: Option<Vec<&'static str>>,
}

impl Asked {
    /// Reads the query.
    ///
    /// # Errors
    /// 400 that names every wrong value.
    pub fn of(query: &Query) -> Result<Self, ApiError> {
        let days =
            service::query::both(query.day("from"), query.day("to")).and_then(|(from, to)| span(from, to));
        let words = service::query::both(grouping(query), statuses(query));
        let ((from, to), (by, statuses)) = service::query::both(days, words)?;
        Ok(Self { from, to, by, statuses })
    }
}

fn span(from: Day, to: Day) -> Result<(Day, Day), ApiError> {
    let days = (to.date() - from.date()).whole_days() + 1;
    if (1..=MAX_DAYS).contains(&days) {
        return Ok((from, to));
    }
    let message = format!("not before from, and at most {MAX_DAYS} days with it");
    Err(ApiError::validation_field("to", "range", message))
}

/// Reads `member`, `project` and `day` in any order, each at most once.
fn grouping(query: &Query) -> Result<Grouping, ApiError> {
    let mut by = Grouping::default();
    for word in query.get("groupBy").unwrap_or("member,project").split(',') {
        let flag = match word {
            "member" => &mut by.member,
            "project" => &mut by.project,
            "day" => &mut by.day,
            _ => return Err(wrong_list("groupBy", "member, project, day")),
        };
        if std::mem::replace(flag, true) {
            return Err(wrong_list("groupBy", "member, project, day"));
        }
    }
    Ok(by)
}

fn statuses(query: &Query) -> Result<Option<Vec<&'static str>>, ApiError> {
    let Some(text) = query.get("status").filter(|text| !text.is_empty()) else { return Ok(None) };
    let mut found = Vec::new();
    for word in text.split(',') {
        match EntryStatus::of_word(word) {
            Ok(known) if !found.contains(&known.word()) => found.push(known.word()),
            _ => return Err(wrong_list("status", "draft, submitted, approved, rejected")),
        }
    }
    Ok(Some(found))
}

fn wrong_list(name: &str, words: &str) -> ApiError {
    ApiError::validation_field(name, "enum", format!("some of {words}, separated by commas, each once"))
}

/// Whether the client wants a file: it accepts `text/csv` by name but not JSON. Types with `q=0` do not count.
#[must_use]
pub fn wants_file(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges: Vec<String> = accepted
        .flat_map(|value| value.split(','))
        .map(str::to_ascii_lowercase)
        .filter(|range| !range.split(';').skip(1).any(is_no_weight))
        .map(|range| range.split(';').next().unwrap_or_default().trim().to_owned())
        .collect();
    let names = |wanted: &str| ranges.iter().any(|range| range == wanted);
    names("text/csv") && !names("application/json")
}

/// Whether a parameter is `q=0`, with up to three zeros after the decimal point (RFC 9110, 12.4.2).
fn is_no_weight(parameter: &str) -> bool {
    let weight = parameter.trim().strip_prefix("q=");
    weight.is_some_and(|weight| ["0", "0.", "0.0", "0.00", "0.000"].contains(&weight))
}

/// A project as a report shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownProject {
    /// The project.
    pub id: ProjectId,
    /// The project's current code.
    pub code: String,
    /// The project's current name.
    pub name: String,
}

/// The hours of one group; fields that rows are not grouped by are absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumRow {
    /// The member.
    pub member: Option<MemberId>,
    /// The project.
    pub project: Option<ShownProject>,
    /// The day.
    pub day: Option<Day>,
    /// The sums of hours.
    pub hours: Totals,
}

/// A row as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportRow {
    /// The member.
    pub member_id: Option<MemberId>,
    /// The member's current name from org.
    pub member_name: Option<String>,
    /// The project.
    pub project_id: Option<ProjectId>,
    /// The project's current code.
    pub project_code: Option<String>,
    /// The project's current name.
    pub project_name: Option<String>,
    /// The day.
    pub day: Option<Day>,
    /// Hours worked.
    pub real_hours: HourSum,
    /// Hours to be billed.
    pub billable_hours: HourSum,
}

/// Adds the member's name to a row.
#[must_use]
pub fn named(row: SumRow, names: &BTreeMap<MemberId, String>) -> ReportRow {
    let member_name = row.member.and_then(|member| names.get(&member).cloned());
    let (project_id, project_code, project_name) = match row.project {
        Some(project) => (Some(project.id), Some(project.code), Some(project.name)),
        None => (None, None, None),
    };
    ReportRow {
        member_id: row.member,
        member_name,
        project_id,
        project_code,
        project_name,
        day: row.day,
        real_hours: row.hours.real_hours,
        billable_hours: row.hours.billable_hours,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_file_is_wanted_by_name_only() {
        let wants = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_str(value).expect("a header"));
            wants_file(&headers)
        };
        assert!(wants("text/csv") && wants("text/html, Text/CSV;q=0.9, */*;q=0.1"));
        assert!(!wants("*/*") && !wants("text/*") && !wants("application/json, text/csv"));
        assert!(wants("text/csv, application/json;q=0.0") && !wants("text/csv;header=present; q=0"));
        assert!(!wants_file(&HeaderMap::new()));
    }
}
