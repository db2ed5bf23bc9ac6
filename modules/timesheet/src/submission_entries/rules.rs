//! The entries of a submission and their sums.

use contract::Day;
use serde::Serialize;

use crate::entries::rules::{HourSum, Hours};
use crate::projects::rules::ProjectId;

/// An entry as it was when its week was submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldEntry {
    /// The project.
    pub project_id: ProjectId,
    /// The project's current code.
    pub project_code: String,
    /// The day.
    pub entry_date: Day,
    /// Hours worked.
    pub real_hours: Hours,
    /// Hours to be billed.
    pub billable_hours: Hours,
    /// What was done.
    pub note: Option<String>,
}

/// Sums of the hours of many entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Hours worked.
    pub real_hours: HourSum,
    /// Hours to be billed.
    pub billable_hours: HourSum,
}

/// All entries of a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// The entries, by day and project code.
    pub items: Vec<HeldEntry>,
    /// The sums of all entries.
    pub totals: Totals,
}

impl Held {
    /// Sums the entries.
    #[must_use]
    pub fn of(items: Vec<HeldEntry>) -> Self {
        let totals = Totals {
            real_hours: items.iter().map(|entry| entry.real_hours).sum(),
            billable_hours: items.iter().map(|entry| entry.billable_hours).sum(),
        };
        Self { items, totals }
    }
}
