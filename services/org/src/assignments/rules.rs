//! What an assignment is. Pure.

use contract::fields::{Fields, FromBody};
use contract::id::{AssignmentId, CompanyId, MemberId, PositionId};
use serde::{Serialize, Serializer};
use time::Date;

/// `OrgAssignment` of the specification; open while it has no last day.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrgAssignment {
    pub(super) id: AssignmentId,
    pub(super) position_id: PositionId,
    pub(super) member_id: MemberId,
    pub(super) valid_from: Day,
    pub(super) valid_to: Option<Day>,
}

/// A day, as `YYYY-MM-DD`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Day(pub(super) Date);

impl Serialize for Day {
    /// The display form of a date is the ISO one for the years that a server's clock has.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// An assignment and the company of its position.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) assignment: OrgAssignment,
    pub(super) company: CompanyId,
}

/// Body of create.
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
