//! Renders a report as CSV (RFC 4180). A cell that a spreadsheet would take for a formula is prefixed with an
//! apostrophe and quoted, so that the name of a member or project is never executed.

use std::fmt::Write;

use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use service::ApiError;

use super::rules::{Asked, ReportRow};

const COLUMNS: &str = "memberId,memberName,projectId,projectCode,projectName,day,realHours,billableHours\r\n";
const KIND: HeaderValue = HeaderValue::from_static("text/csv; charset=utf-8; header=present");

/// A CSV file.
pub(super) struct File {
    name: String,
    text: String,
}

impl File {
    /// Builds the file from these rows.
    pub(super) fn of(asked: &Asked, rows: &[ReportRow]) -> Result<Self, ApiError> {
        let mut text = COLUMNS.to_owned();
        for row in rows {
            line(&mut text, row).map_err(ApiError::internal)?;
        }
        Ok(Self { name: format!("hours_{}_{}.csv", asked.from, asked.to), text })
    }
}

fn line(text: &mut String, row: &ReportRow) -> std::fmt::Result {
    let shown = |value: Option<String>| value.map_or_else(String::new, |value| cell(&value));
    write!(
        text,
        "{},{},{},{},{},{},{},{}\r\n",
        shown(row.member_id.map(|id| id.to_string())),
        shown(row.member_name.clone()),
        shown(row.project_id.map(|id| id.to_string())),
        shown(row.project_code.clone()),
        shown(row.project_name.clone()),
        shown(row.day.map(|day| day.to_string())),
        row.real_hours,
        row.billable_hours
    )
}

/// Escapes a cell. A leading tab or carriage return counts as the beginning of a formula, because some spreadsheets
/// trim it.
fn cell(value: &str) -> String {
    let formula = value.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let quoted = formula || value.contains([',', '"', '\r', '\n']);
    let inner = value.replace('"', "\"\"");
    match (formula, quoted) {
        (true, _) => format!("\"'{inner}\""),
        (false, true) => format!("\"{inner}\""),
        (false, false) => inner,
    }
}

impl IntoResponse for File {
    fn into_response(self) -> Response {
        let mut response = self.text.into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, KIND);
        // The name consists of digits, letters, hyphens and underscores, so it needs no escaping.
        if let Ok(value) = HeaderValue::from_str(&format!("attachment; filename=\"{}\"", self.name)) {
            headers.insert(CONTENT_DISPOSITION, value);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_never_a_formula_and_never_ends_early() {
        for (value, expected) in [
            ("Web shop", "Web shop"),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("two\nlines", "\"two\nlines\""),
            ("=1+1", "\"'=1+1\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("\t=1", "\"'\t=1\""),
            ("=HYPERLINK(\"x\")", "\"'=HYPERLINK(\"\"x\"\")\""),
            ("a=1", "a=1"),
            ("", ""),
        ] {
            assert_eq!(cell(value), expected, "{value:?}");
        }
    }
}
