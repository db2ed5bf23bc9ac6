//! Weeks and the window of open weeks.

use contract::Day;
use contract::fields::Fields;
use serde::Serialize;
use serde_json::json;
use service::ApiError;
use time::{Date, Duration, OffsetDateTime};

use crate::settings::rules::TimeRules;
use service::refusal::broken;

/// A day begins first at UTC+14.
const AHEAD: Duration = Duration::hours(14);
/// A day ends last at UTC-12.
const BEHIND: Duration = Duration::hours(12);

/// A week, identified by its Monday.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Week(Day);

impl Week {
    /// The week that contains a day.
    #[must_use]
    pub fn of(day: Day) -> Self {
        let past = i64::from(day.date().weekday().number_days_from_monday());
        // The earliest day, the first of January of the year 1, is a Monday.
        Self(day.date().saturating_sub(Duration::days(past)).into())
    }

    /// The week that begins with this day; `None` unless it is a Monday.
    #[must_use]
    pub fn starting(day: Day) -> Option<Self> {
        Some(Self::of(day)).filter(|week| week.0 == day)
    }

    /// The week that the request's value `name` gives.
    ///
    /// # Errors
    /// 400 when the day is not a Monday.
    pub fn named(name: &str, day: Day) -> Result<Self, ApiError> {
        Self::starting(day).ok_or_else(|| ApiError::validation_field(name, "monday", "a Monday"))
    }

    /// Its Monday, for SQL.
    #[must_use]
    pub const fn monday(self) -> Date {
        self.0.date()
    }

    fn later(self, weeks: i64) -> Self {
        Self(self.monday().saturating_add(Duration::weeks(weeks)).into())
    }
}

impl From<Date> for Week {
    fn from(monday: Date) -> Self {
        Self::of(monday.into())
    }
}

/// Reads a week's Monday from a body.
pub fn week(fields: &mut Fields<'_>, name: &str) -> Option<Week> {
    let day = fields.day(name)?;
    Week::starting(day).or_else(|| fields.refuse(name, "monday", "a Monday"))
}

/// The weeks that time may be recorded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    first: Week,
    last: Week,
}

impl Window {
    /// The window at a point in time. Every week that has begun somewhere and not ended everywhere counts as current.
    #[must_use]
    pub fn at(now: OffsetDateTime, rules: &TimeRules) -> Self {
        let earliest = Week::from(now.saturating_sub(BEHIND).date());
        let latest = Week::from(now.saturating_add(AHEAD).date());
        Self {
            first: earliest.later(-rules.allowed_previous_weeks),
            last: latest.later(rules.allowed_future_weeks),
        }
    }

    /// Checks that the week is open. A rejected or reverted week before the window stays open, or a late rejection
    /// could never be corrected.
    ///
    /// # Errors
    /// 422 `WEEK_OUT_OF_WINDOW`.
    pub fn admit(self, week: Week, current: Option<Current>) -> Result<(), ApiError> {
        let handed_back =
            current.is_some_and(|current| matches!(current.status, Status::Rejected | Status::Reverted));
        if week <= self.last && (week >= self.first || handed_back) {
            return Ok(());
        }
        let details = json!({ "weekStart": week, "from": self.first, "to": self.last });
        Err(broken("WEEK_OUT_OF_WINDOW", "the week is not open", details))
    }
}

contract::typed_id!(
    /// One version of a week's submission.
    SubmissionId
);

contract::words! {
    /// The status of a submission.
    pub enum Status {
        /// It waits for a decision.
        Submitted = "submitted",
        /// It was accepted.
        Approved = "approved",
        /// It was sent back with a reason.
        Rejected = "rejected",
        /// It or its approval was reverted.
        Reverted = "reverted",
    }
}

impl Status {
    /// Whether the week's hours may not change.
    #[must_use]
    pub const fn locks(self) -> bool {
        matches!(self, Self::Submitted | Self::Approved)
    }
}

/// The current submission of a week.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    /// Its id.
    pub id: SubmissionId,
    /// Its status.
    pub status: Status,
    /// Its version number.
    pub version: i32,
    /// The id of the first version.
    pub root: SubmissionId,
}

#[cfg(test)]
mod tests {
    use time::macros::{date, datetime};

    use super::*;

    #[test]
    fn a_week_is_named_by_its_monday_in_every_year() {
        for (day, monday) in [
            (date!(2026 - 11 - 22), date!(2026 - 11 - 16)),
            (date!(2026 - 11 - 23), date!(2026 - 11 - 23)),
            // Week 53 of 2020 reaches into 2021, and the leap day of 2024 is a Thursday.
            (date!(2021 - 01 - 03), date!(2020 - 12 - 28)),
            (date!(2024 - 02 - 29), date!(2024 - 02 - 26)),
            // Clocks change on this Sunday in Europe; a day is a day.
            (date!(2026 - 03 - 29), date!(2026 - 03 - 23)),
            (date!(0001 - 01 - 07), date!(0001 - 01 - 01)),
            (date!(9999 - 12 - 31), date!(9999 - 12 - 27)),
        ] {
            assert_eq!(Week::from(day).monday(), monday, "{day}");
            assert_eq!(Week::starting(day.into()).is_some(), day == monday);
        }
    }

    fn open(now: OffsetDateTime, previous: i64, future: i64) -> (Date, Date) {
        let rules = TimeRules {
            allowed_previous_weeks: previous,
            allowed_future_weeks: future,
            ..TimeRules::default()
        };
        let window = Window::at(now, &rules);
        (window.first.monday(), window.last.monday())
    }

    #[test]
    fn p09_the_window_is_lenient_over_time_zones() {
        let (this, next) = (date!(2026 - 11 - 16), date!(2026 - 11 - 23));
        assert_eq!(open(datetime!(2026-11-22 23:30 UTC), 0, 0), (this, next));
        assert_eq!(open(datetime!(2026-11-22 09:59:59 UTC), 0, 0), (this, this), "Sunday everywhere");
        assert_eq!(open(datetime!(2026-11-22 10:00 UTC), 0, 0), (this, next), "Monday at UTC+14");
        assert_eq!(open(datetime!(2026-11-23 11:59:59 UTC), 0, 0), (this, next), "Sunday at UTC-12");
        assert_eq!(open(datetime!(2026-11-23 12:00 UTC), 0, 0), (next, next), "Monday everywhere");
        let wide = open(datetime!(2021-01-06 12:00 UTC), 1, 1);
        assert_eq!(wide, (date!(2020 - 12 - 28), date!(2021 - 01 - 11)), "over week 53");
    }

    #[test]
    fn p10_a_week_that_was_handed_back_is_open_on_the_past_side_only() {
        let window = Window::at(datetime!(2026-11-18 12:00 UTC), &TimeRules::default());
        let week = Week::from;
        let current = |status| {
            let id = SubmissionId::mint();
            Some(Current { id, status, version: 1, root: id })
        };
        let (old, ahead) = (week(date!(2026 - 01 - 05)), week(date!(2026 - 12 - 07)));
        assert!(window.admit(old, None).is_err());
        for (status, admitted) in [
            (Status::Rejected, true),
            (Status::Reverted, true),
            (Status::Submitted, false),
            (Status::Approved, false),
        ] {
            assert_eq!(window.admit(old, current(status)).is_ok(), admitted, "{status:?}");
            assert!(window.admit(ahead, current(status)).is_err());
        }
        assert!(window.admit(week(date!(2026 - 10 - 19)), None).is_ok());
        assert!(window.admit(week(date!(2026 - 10 - 12)), None).is_err());
        assert!(window.admit(week(date!(2026 - 11 - 23)), None).is_ok());
        assert!(window.admit(week(date!(2026 - 11 - 30)), None).is_err());
    }
}
