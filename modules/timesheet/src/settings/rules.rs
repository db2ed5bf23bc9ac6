//! What a company's rules are and how a change is applied. Changing them never rewrites hours that were recorded.

use contract::fields::{Fields, FromBody};
use serde::Serialize;
use service::company_rules::RulesChange;

/// Furthest week that may be opened, ten years: more is a slip of the finger.
const MAX_WEEKS: i64 = 520;

/// A company's rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimeRules {
    /// Billable hours of an entry never exceed its real hours.
    pub enforce_billable_within_actual: bool,
    /// A day may have more than eight billable hours.
    pub allow_billable_above_eight_hours: bool,
    /// How many weeks back time may be recorded.
    pub allowed_previous_weeks: i64,
    /// How many weeks ahead.
    pub allowed_future_weeks: i64,
}

impl Default for TimeRules {
    /// The rules of a company that never changed them.
    fn default() -> Self {
        Self {
            enforce_billable_within_actual: true,
            allow_billable_above_eight_hours: false,
            allowed_previous_weeks: 4,
            allowed_future_weeks: 1,
        }
    }
}

/// The body of a change: any subset; what is absent stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    enforce_billable_within_actual: Option<bool>,
    allow_billable_above_eight_hours: Option<bool>,
    allowed_previous_weeks: Option<i64>,
    allowed_future_weeks: Option<i64>,
}

impl RulesChange<TimeRules> for Change {
    fn apply(self, before: TimeRules) -> TimeRules {
        TimeRules {
            enforce_billable_within_actual: self
                .enforce_billable_within_actual
                .unwrap_or(before.enforce_billable_within_actual),
            allow_billable_above_eight_hours: self
                .allow_billable_above_eight_hours
                .unwrap_or(before.allow_billable_above_eight_hours),
            allowed_previous_weeks: self.allowed_previous_weeks.unwrap_or(before.allowed_previous_weeks),
            allowed_future_weeks: self.allowed_future_weeks.unwrap_or(before.allowed_future_weeks),
        }
    }
}

impl FromBody for Change {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let within_actual = fields.optional_bool("enforceBillableWithinActual");
        let above_eight = fields.optional_bool("allowBillableAboveEightHours");
        let previous = fields.optional_integer("allowedPreviousWeeks", 0..=MAX_WEEKS);
        let future = fields.optional_integer("allowedFutureWeeks", 0..=MAX_WEEKS);
        Some(Self {
            enforce_billable_within_actual: within_actual?,
            allow_billable_above_eight_hours: above_eight?,
            allowed_previous_weeks: previous?,
            allowed_future_weeks: future?,
        })
    }
}
