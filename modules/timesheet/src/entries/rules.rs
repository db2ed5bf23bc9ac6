//! Entries: their fields and the hours that a day may have. Hours are counted in hundredths, so that sums are exact.

use std::collections::BTreeMap;
use std::fmt;
use std::iter::Sum;

use contract::Day;
use contract::fields::{Fields, FromBody, Patch, Text};
use contract::id::{CompanyId, MemberId};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::projects::rules::{ProjectId, Status as ProjectStatus};
use crate::settings::rules::TimeRules;
use crate::weeks::rules::Status;
use service::refusal::Broken;

contract::typed_id!(
    /// An entry of one member.
    EntryId
);

/// Longest note of an entry, in characters.
const MAX_NOTE: usize = 500;

/// Hours in hundredths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hours(i32);

impl Hours {
    /// The hours of a day.
    pub const DAY: Self = Self(24_00);
    /// Billable hours of a day, unless the company allows more.
    pub const BILLABLE_DAY: Self = Self(8_00);

    /// Creates hours from hundredths.
    #[must_use]
    pub const fn of_hundredths(hundredths: i32) -> Self {
        Self(hundredths)
    }

    /// The hours in hundredths, for SQL.
    #[must_use]
    pub const fn hundredths(self) -> i32 {
        self.0
    }

    /// Adds hours.
    #[must_use]
    pub const fn plus(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }

    /// Subtracts other hours; never below zero.
    #[must_use]
    pub fn beside(self, others: Self) -> Self {
        Self(self.0.saturating_sub(others.0).max(0))
    }

    /// Parses a JSON number from 0 to 24 with at most two decimals.
    fn parse(value: &Value) -> Result<Self, (&'static str, &'static str)> {
        let number = value.as_f64().filter(|_| value.is_number()).ok_or(("type", "a number"))?;
        if !(0.0..=24.0).contains(&number) {
            return Err(("range", "from 0 to 24"));
        }
        decimal(number).map(Self).ok_or(("precision", "at most two decimals"))
    }
}

/// Converts a number to hundredths from its shortest decimal form; -0 is 0.
fn decimal(number: f64) -> Option<i32> {
    let text = number.abs().to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let digits = match fraction.len() {
        0..=2 => format!("{whole}{fraction:0<2}"),
        _ => return None,
    };
    digits.parse().ok()
}

impl Serialize for Hours {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 % 100 == 0 {
            return serializer.serialize_i32(self.0 / 100);
        }
        serializer.serialize_f64(f64::from(self.0) / 100.0)
    }
}

/// A sum of the hours of many entries, in hundredths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HourSum(i64);

impl HourSum {
    /// Creates a sum from hundredths.
    #[must_use]
    pub const fn of_hundredths(hundredths: i64) -> Self {
        Self(hundredths)
    }
}

impl Sum<Hours> for HourSum {
    fn sum<I: Iterator<Item = Hours>>(hours: I) -> Self {
        Self(hours.map(|hours| i64::from(hours.0)).sum())
    }
}

impl fmt::Display for HourSum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0 / 100, self.0 % 100) {
            (whole, 0) => write!(f, "{whole}"),
            (whole, rest) if rest % 10 == 0 => write!(f, "{whole}.{}", rest / 10),
            (whole, rest) => write!(f, "{whole}.{rest:02}"),
        }
    }
}

impl Serialize for HourSum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 % 100 == 0 {
            return serializer.serialize_i64(self.0 / 100);
        }
        // Parsing the decimal form gives the nearest double, which is also what JSON readers parse.
        let number: f64 = self.to_string().parse().map_err(serde::ser::Error::custom)?;
        serializer.serialize_f64(number)
    }
}

/// An entry as clients see it.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Minted at creation; unchanged when the entry is put again.
    pub id: EntryId,
    /// The company that it belongs to.
    pub company_id: CompanyId,
    /// The member who recorded it.
    pub member_id: MemberId,
    /// The recorded hours.
    #[serde(flatten)]
    pub content: Content,
    /// The status of the week.
    pub status: EntryStatus,
}

/// The recorded part of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    /// The project.
    pub project_id: ProjectId,
    /// The day.
    pub entry_date: Day,
    /// Hours worked.
    pub real_hours: Hours,
    /// Hours to be billed.
    pub billable_hours: Hours,
    /// What was done.
    pub note: Option<String>,
}

contract::words! {
    /// The status of an entry, as given by the week's current submission.
    pub enum EntryStatus {
        /// The week is open.
        Draft = "draft",
        /// The week waits for a decision.
        Submitted = "submitted",
        /// The week was accepted.
        Approved = "approved",
        /// The week was sent back.
        Rejected = "rejected",
    }
}

impl EntryStatus {
    /// Derives it from the status of the week's current submission.
    #[must_use]
    pub const fn of(current: Option<Status>) -> Self {
        match current {
            None | Some(Status::Reverted) => Self::Draft,
            Some(Status::Submitted) => Self::Submitted,
            Some(Status::Approved) => Self::Approved,
            Some(Status::Rejected) => Self::Rejected,
        }
    }
}

/// The body of an entry.
#[derive(Clone, Debug)]
pub struct EntryBody {
    /// The project.
    pub project: ProjectId,
    /// The day.
    pub day: Day,
    /// Hours worked.
    pub real: Hours,
    billable: Option<Hours>,
    note: Patch<String>,
}

impl FromBody for EntryBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let project = fields.uuid("projectId");
        let day = fields.day("entryDate");
        let real = match fields.raw("realHours") {
            Some(value) => hours(fields, "realHours", value),
            None => fields.refuse("realHours", "required", "required"),
        };
        let billable = match fields.raw("billableHours") {
            Some(value) => hours(fields, "billableHours", value).map(Some),
            None => Some(None),
        };
        let note = fields.patch_text("note", Text::prose(0, MAX_NOTE));
        Some(Self { project: project?, day: day?, real: real?, billable: billable?, note: note? })
    }
}

fn hours(fields: &mut Fields<'_>, name: &str, value: &Value) -> Option<Hours> {
    match Hours::parse(value) {
        Ok(hours) => Some(hours),
        Err((rule, message)) => fields.refuse(name, rule, message),
    }
}

/// Hours of one entry or of a day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Hours worked.
    pub real: Hours,
    /// Hours to be billed.
    pub billable: Hours,
}

impl EntryBody {
    /// Builds the entry from this body and the entry before it.
    #[must_use]
    pub fn content(&self, before: Option<&Content>, others: Sums, rules: &TimeRules) -> Content {
        Content {
            project_id: self.project,
            entry_date: self.day,
            real_hours: self.real,
            billable_hours: self.billable(before, rules).unwrap_or_else(|| self.room(others.billable, rules)),
            note: self.note.clone().apply(before.and_then(|before| before.note.clone())),
        }
    }

    /// The billable hours as sent, or those of the old entry, limited to the real hours where the rules demand it.
    /// `None` when the rest of the day decides.
    #[must_use]
    pub fn billable(&self, before: Option<&Content>, rules: &TimeRules) -> Option<Hours> {
        match (self.billable, before) {
            (Some(billable), _) => Some(billable),
            (None, Some(before)) if rules.enforce_billable_within_actual => {
                Some(before.billable_hours.min(self.real))
            }
            (None, Some(before)) => Some(before.billable_hours),
            (None, None) => None,
        }
    }

    /// The hours of a new entry that may be billed given the day's other billable hours.
    fn room(&self, others: Hours, rules: &TimeRules) -> Hours {
        if rules.allow_billable_above_eight_hours {
            return self.real;
        }
        self.real.min(Hours::BILLABLE_DAY.beside(others))
    }
}

impl Content {
    /// Checks that the company has the project; hours of an inactive project can only be lowered.
    ///
    /// # Errors
    /// 422 `PROJECT_UNKNOWN`, `PROJECT_INACTIVE`.
    pub fn check_project(&self, project: Option<ProjectStatus>, before: Option<&Self>) -> Result<(), Broken> {
        let details = || json!({ "projectId": self.project_id });
        let lowered = before.is_some_and(|before| {
            self.real_hours <= before.real_hours && self.billable_hours <= before.billable_hours
        });
        match project {
            Some(ProjectStatus::Active) => Ok(()),
            Some(ProjectStatus::Inactive) if lowered => Ok(()),
            Some(ProjectStatus::Inactive) => {
                let message = "hours of an inactive project can only be lowered";
                Err(Broken::new("PROJECT_INACTIVE", message, details()))
            }
            None => Err(Broken::new("PROJECT_UNKNOWN", "the company has no such project", details())),
        }
    }

    /// Checks that the hours fit into the day together with the member's other entries.
    ///
    /// # Errors
    /// 422 `DAILY_HOURS_EXCEEDED`, `BILLABLE_EXCEEDS_ACTUAL`, `BILLABLE_ABOVE_EIGHT_HOURS`.
    pub fn check_hours(&self, others: Sums, rules: &TimeRules) -> Result<(), Broken> {
        check_day(self.entry_date, self.real_hours.plus(others.real))?;
        check_entry(self, rules)?;
        check_billable_day(self.entry_date, self.billable_hours.plus(others.billable), rules)
    }
}

/// Checks the hours worked on one day.
///
/// # Errors
/// 422 `DAILY_HOURS_EXCEEDED`.
pub fn check_day(day: Day, real: Hours) -> Result<(), Broken> {
    if real > Hours::DAY {
        return Err(too_much("DAILY_HOURS_EXCEEDED", "a day has 24 hours", day));
    }
    Ok(())
}

/// Checks the billable hours of one entry.
///
/// # Errors
/// 422 `BILLABLE_EXCEEDS_ACTUAL`.
pub fn check_entry(entry: &Content, rules: &TimeRules) -> Result<(), Broken> {
    if rules.enforce_billable_within_actual && entry.billable_hours > entry.real_hours {
        let message = "billable hours exceed real hours";
        return Err(too_much("BILLABLE_EXCEEDS_ACTUAL", message, entry.entry_date));
    }
    Ok(())
}

/// Checks the billable hours of one day.
///
/// # Errors
/// 422 `BILLABLE_ABOVE_EIGHT_HOURS`.
pub fn check_billable_day(day: Day, billable: Hours, rules: &TimeRules) -> Result<(), Broken> {
    if !rules.allow_billable_above_eight_hours && billable > Hours::BILLABLE_DAY {
        let message = "a day has more than eight billable hours";
        return Err(too_much("BILLABLE_ABOVE_EIGHT_HOURS", message, day));
    }
    Ok(())
}

/// Checks the hours of a whole week against the current rules; the error names the first day that breaks one.
///
/// # Errors
/// 422 `BILLABLE_EXCEEDS_ACTUAL`, `BILLABLE_ABOVE_EIGHT_HOURS`.
pub fn check_week<'a>(
    entries: impl IntoIterator<Item = &'a Content>,
    rules: &TimeRules,
) -> Result<(), Broken> {
    let mut days: BTreeMap<Day, Vec<&Content>> = BTreeMap::new();
    for entry in entries {
        days.entry(entry.entry_date).or_default().push(entry);
    }
    for (day, entries) in days {
        entries.iter().try_for_each(|entry| check_entry(entry, rules))?;
        let billable = entries.iter().fold(Hours::default(), |sum, entry| sum.plus(entry.billable_hours));
        check_billable_day(day, billable, rules)?;
    }
    Ok(())
}

fn too_much(reason: &'static str, message: &'static str, day: Day) -> Broken {
    Broken::new(reason, message, json!({ "entryDate": day }))
}
