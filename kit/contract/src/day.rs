//! Calendar days on the wire: `YYYY-MM-DD`, from year 1 on.

use std::fmt;

use serde::{Serialize, Serializer};
use time::Date;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

const FORM: &[BorrowedFormatItem<'static>] = format_description!("[year]-[month]-[day]");

/// A calendar day.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(Date);

impl Day {
    /// Error message for a text that is not a day.
    pub const EXPECTED: &'static str = "a date, YYYY-MM-DD";

    /// Parses a day.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        // Ten characters that begin with a digit: excludes signs and years of more than four digits.
        let plain = text.len() == 10 && text.starts_with(|first: char| first.is_ascii_digit());
        let date = if plain { Date::parse(text, FORM).ok()? } else { return None };
        (date.year() >= 1).then_some(Self(date))
    }

    /// The date, for SQL and arithmetic.
    #[must_use]
    pub const fn date(self) -> Date {
        self.0
    }
}

impl From<Date> for Day {
    fn from(date: Date) -> Self {
        Self(date)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.format(FORM).map_err(|_| fmt::Error)?)
    }
}

impl Serialize for Day {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_one_spelling() {
        for good in ["0001-01-01", "2024-02-29", "9999-12-31"] {
            assert_eq!(Day::parse(good).map(|day| day.to_string()).as_deref(), Some(good));
        }
        for bad in [
            "",
            "2026-11-31",
            "2025-02-29",
            "2026-1-1",
            "+2026-11-1",
            "-026-11-16",
            "0000-12-31",
            "2026-11-16T00:00:00Z",
            "16.11.2026",
            "2026/11/16",
        ] {
            assert_eq!(Day::parse(bad), None, "{bad}");
        }
    }
}
