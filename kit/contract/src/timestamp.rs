//! Timestamps on the wire: RFC 3339 in UTC with milliseconds, such as `2026-11-22T23:30:00.000Z`, so that one instant
//! has one spelling in responses, stored responses and audit rows.

use serde::{Serialize, Serializer, ser};
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, UtcOffset};

const FORM: &[BorrowedFormatItem<'static>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// A timestamp as written for clients. Truncated to milliseconds, never rounded up: a response must not name a time in
/// the future.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(OffsetDateTime);

impl From<OffsetDateTime> for Timestamp {
    fn from(moment: OffsetDateTime) -> Self {
        Self(moment)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = self.0.to_offset(UtcOffset::UTC).format(FORM).map_err(ser::Error::custom)?;
        serializer.serialize_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use time::macros::datetime;

    use super::*;

    #[test]
    fn written_in_utc_with_milliseconds_that_are_cut() {
        let written = |moment: OffsetDateTime| json!(Timestamp::from(moment));
        assert_eq!(written(datetime!(2026-11-23 1:30:00.999_999 +02:00)), json!("2026-11-22T23:30:00.999Z"));
        assert_eq!(written(datetime!(2026-01-02 3:04:05 UTC)), json!("2026-01-02T03:04:05.000Z"));
    }
}
