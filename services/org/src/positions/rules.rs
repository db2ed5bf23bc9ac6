//! Types of positions. Pure.

use contract::fields::{Fields, FromBody, Text};
use contract::id::{AssignmentId, CompanyId, MemberId, PositionId, UnitId};
use serde::Serialize;

/// Longest code, in characters.
const MAX_CODE: usize = 64;
/// Longest title, in characters.
const MAX_TITLE: usize = 200;

/// `OrgPosition` of the specification.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrgPosition {
    pub(crate) id: PositionId,
    pub(crate) company_id: CompanyId,
    pub(crate) code: String,
    pub(crate) title: String,
    pub(crate) org_unit_id: UnitId,
}

/// `OrgPositionWithHolder` of the specification; the last three fields are null for a vacant position.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrgPositionWithHolder {
    #[serde(flatten)]
    pub(super) position: OrgPosition,
    pub(super) assignment_id: Option<AssignmentId>,
    pub(super) member_id: Option<MemberId>,
    pub(super) holder_display_name: Option<String>,
}

/// The request body of `create`.
#[derive(Debug)]
pub(crate) struct NewPosition {
    code: String,
    title: String,
    unit: UnitId,
}

impl FromBody for NewPosition {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let code = fields.text("code", Text::code(MAX_CODE));
        let title = fields.text("title", Text::title(MAX_TITLE));
        let unit = fields.uuid("orgUnitId");
        Some(Self { code: code?, title: title?, unit: unit? })
    }
}

impl NewPosition {
    /// The new position in `company_id`.
    pub(crate) fn of(self, company_id: CompanyId) -> OrgPosition {
        let id = PositionId::mint();
        OrgPosition { id, company_id, code: self.code, title: self.title, org_unit_id: self.unit }
    }
}
