//! Types of groups, and which groups can be changed here. Pure.

use contract::envelope::code;
use contract::fields::{Fields, FromBody, Text};
use contract::id::{CompanyId, GroupId, MemberId};
use contract::timestamp::Timestamp;
use serde::Serialize;
use serde_json::json;
use service::ApiError;

/// Source of the groups that the platform manages.
pub(super) const PLATFORM: &str = "platform";
/// Longest code, in characters.
const MAX_CODE: usize = 64;
/// Longest name, in characters.
const MAX_NAME: usize = 200;

/// `OrgGroup` of the specification.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrgGroup {
    pub(super) id: GroupId,
    pub(super) company_id: CompanyId,
    pub(super) code: String,
    pub(super) name: String,
    pub(super) source: String,
    pub(super) external_ref: Option<String>,
    pub(super) is_active: bool,
    pub(super) is_platform_managed: bool,
}

impl OrgGroup {
    /// Checks that members may be added and removed here.
    ///
    /// # Errors
    /// 409 for a group of another source.
    pub(super) fn managed_here(&self) -> Result<(), ApiError> {
        if self.is_platform_managed {
            return Ok(());
        }
        Err(ApiError::Conflict {
            code: code::GROUP_NOT_PLATFORM_MANAGED,
            message: "the group is not managed by the platform".into(),
            details: json!({ "groupId": self.id, "source": self.source }),
        })
    }
}

/// `OrgGroupWithMemberCount` of the specification; the count includes active members only.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrgGroupWithMemberCount {
    #[serde(flatten)]
    pub(super) group: OrgGroup,
    pub(super) member_count: i64,
}

/// `OrgGroupMember` of the specification.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OrgGroupMember {
    pub(super) group_id: GroupId,
    pub(super) member_id: MemberId,
    pub(super) added_by: String,
    pub(super) added_at: Timestamp,
    pub(super) member_display_name: String,
    pub(super) member_email: Option<String>,
}

/// The response to a removal.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RemovedMember {
    pub(super) group_id: GroupId,
    pub(super) member_id: MemberId,
}

/// The request body of `create`.
#[derive(Debug)]
pub(super) struct NewGroup {
    code: String,
    name: String,
}

impl FromBody for NewGroup {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let code = fields.text("code", Text::code(MAX_CODE));
        let name = fields.text("name", Text::title(MAX_NAME));
        Some(Self { code: code?, name: name? })
    }
}

impl NewGroup {
    /// The new group in `company_id`, managed by the platform.
    pub(super) fn of(self, company_id: CompanyId) -> OrgGroup {
        OrgGroup {
            id: GroupId::mint(),
            company_id,
            code: self.code,
            name: self.name,
            source: PLATFORM.to_owned(),
            external_ref: None,
            is_active: true,
            is_platform_managed: true,
        }
    }
}

/// The request body of `add`.
#[derive(Debug)]
pub(super) struct NewGroupMember(pub(super) MemberId);

impl FromBody for NewGroupMember {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        fields.uuid("memberId").map(Self)
    }
}
