//! What a report is asked for and what its rows are.

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
/// Most rows of a file: some five megabytes, more than a spreadsheet is pleasant with.
pub const MAX_FILE_ROWS: i64 = 50_000;

/// What rows are told apart by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grouping {
    /// A row a member.
    pub member: bool,
    /// A row a project.
    pub project: bool,
    /// A row a day.
    pub day: bool,
}

/// What a report is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// First day.
    pub from: Day,
    /// Last day.
    pub to: Day,
    /// What rows are told apart by.
    pub by: Grouping,
    /// Only hours of weeks of these statuses; `None`: of all.
    pub statuses: Option<Vec<&'static str>>,
}

impl Asked {
    /// Reads the query.
    ///
    /// # Errors
    /// 400 naming every wrong value.
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

/// `member`, `project` and `day` in any order, each at most once.
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

/// Whether the client wants a file: it names `text/csv` and not JSON. What has no weight (`q=0`) is not wanted.
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

/// `q=0`, with up to three zeros after the point (RFC 9110, 12.4.2).
fn is_no_weight(parameter: &str) -> bool {
    let weight = parameter.trim().strip_prefix("q=");
    weight.is_some_and(|weight| ["0", "0.", "0.0", "0.00", "0.000"].contains(&weight))
}

/// A project as a report shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownProject {
    /// Which one.
    pub id: ProjectId,
    /// Its code now.
    pub code: String,
    /// Its name now.
    pub name: String,
}

/// Hours of what the row stands for; what rows are not told apart by is absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumRow {
    /// Whose.
    pub member: Option<MemberId>,
    /// Against what.
    pub project: Option<ShownProject>,
    /// On which day.
    pub day: Option<Day>,
    /// How many.
    pub hours: Totals,
}

/// A row as clients see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportRow {
    /// Whose.
    pub member_id: Option<MemberId>,
    /// As org names the member now.
    pub member_name: Option<String>,
    /// Against what.
    pub project_id: Option<ProjectId>,
    /// Its code now.
    pub project_code: Option<String>,
    /// Its name now.
    pub project_name: Option<String>,
    /// On which day.
    pub day: Option<Day>,
    /// Hours worked.
    pub real_hours: HourSum,
    /// Hours to be billed.
    pub billable_hours: HourSum,
}

/// The row with the member's name.
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
