//! Types of assignments. Pure.

use contract::fields::{Fields, FromBody};
use contract::id::{AssignmentId, CompanyId, MemberId, PositionId};
use serde::{Serialize, Serializer};
use time::Date;

/// `OrgAssignment` of the specification; open while `valid_to` is absent.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrgAssignment {
    pub(super) id: AssignmentId,
    pub(super) position_id: PositionId,
    pub(super) member_id: MemberId,
    pub(super) valid_from: Day,
    pub(super) valid_to: Option<Day>,
}

/// A date, serialized as `YYYY-MM-DD`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Day(pub(super) Date);

impl Serialize for Day {
    /// For the years 0 to 9999, `Date` displays in the ISO format.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// An assignment with the company of its position.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) assignment: OrgAssignment,
    pub(super) company: CompanyId,
}

/// The request body of `create`.
#[derive(Debug)]
pub(super) struct NewAssignment(pub(super) MemberId);

impl FromBody for NewAssignment {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        fields.uuid("memberId").map(Self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use time::macros::date;

    use super::*;

    #[test]
    fn a_day_has_four_two_and_two_digits() {
        assert_eq!(json!(Day(date!(2026 - 03 - 04))), json!("2026-03-04"));
    }
}
