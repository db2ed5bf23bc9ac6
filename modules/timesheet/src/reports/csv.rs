//! A report as a file (RFC 4180). A cell that a spreadsheet would take for a formula begins with an apostrophe and is
//! quoted, so that a member's or project's name is never executed.

use std::fmt::Write;

use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use service::ApiError;

use super::rules::{Asked, ReportRow};

const COLUMNS: &str = "memberId,memberName,projectId,projectCode,projectName,day,realHours,billableHours\r\n";
const KIND: HeaderValue = HeaderValue::from_static("text/csv; charset=utf-8; header=present");

/// A whole file.
pub(super) struct File {
    name: String,
    text: String,
}

impl File {
    /// The file of these rows.
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

/// A cell's text. Tab and carriage return begin a formula too, after some spreadsheets have trimmed them.
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
        // Days are digits and hyphens, so the name needs no quoting of its own.
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
