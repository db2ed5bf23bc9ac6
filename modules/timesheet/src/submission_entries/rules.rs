//! What a held entry is.

use contract::Day;
use serde::Serialize;

use crate::entries::rules::{HourSum, Hours};
use crate::projects::rules::ProjectId;

/// An entry as it was when its week was submitted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldEntry {
    /// Against what.
    pub project_id: ProjectId,
    /// The code of the project now.
    pub project_code: String,
    /// On which day.
    pub entry_date: Day,
    /// Hours worked.
    pub real_hours: Hours,
    /// Hours to be billed.
    pub billable_hours: Hours,
    /// What was done.
    pub note: Option<String>,
}

/// Hours of many entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Hours worked.
    pub real_hours: HourSum,
    /// Hours to be billed.
    pub billable_hours: HourSum,
}

/// Everything that a submission held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Held {
    /// By day and project code.
    pub items: Vec<HeldEntry>,
    /// Of all of them.
    pub totals: Totals,
}

impl Held {
    /// The entries and their sums.
    #[must_use]
    pub fn of(items: Vec<HeldEntry>) -> Self {
        let totals = Totals {
            real_hours: items.iter().map(|entry| entry.real_hours).sum(),
            billable_hours: items.iter().map(|entry| entry.billable_hours).sum(),
        };
        Self { items, totals }
    }
}
