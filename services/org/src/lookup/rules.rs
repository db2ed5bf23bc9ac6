//! Types of look-ups and assignables. Pure.

use contract::Subject;
use contract::fields::{Fields, FromBody};
use contract::id::{GroupId, MemberId, PositionId, parse_uuid};
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

/// Maximum number of ids of one kind per request.
const MAX_IDS: usize = 200;

/// The request body of `lookup`: ids of each kind, of which each list may be absent, and whether to tell the logins behind
/// positions and groups.
#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) members: Vec<Uuid>,
    pub(super) positions: Vec<Uuid>,
    pub(super) groups: Vec<Uuid>,
    pub(super) with_logins: bool,
}

impl FromBody for Wanted {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        let members = ids(fields, "memberIds");
        let positions = ids(fields, "positionIds");
        let groups = ids(fields, "groupIds");
        let with_logins = fields.optional_bool("withLogins");
        Some(Self {
            members: members?,
            positions: positions?,
            groups: groups?,
            with_logins: with_logins?.unwrap_or_default(),
        })
    }
}

/// Reads a list of ids; an absent list is empty.
fn ids(fields: &mut Fields<'_>, name: &str) -> Option<Vec<Uuid>> {
    let Some(value) = fields.raw(name) else { return Some(Vec::new()) };
    let Value::Array(items) = value else { return fields.refuse(name, "type", "a list") };
    if items.len() > MAX_IDS {
        return fields.refuse(name, "length", format!("at most {MAX_IDS} items"));
    }
    let read: Vec<Option<Uuid>> = items
        .iter()
        .enumerate()
        .map(|(index, item)| {
            let id = item.as_str().and_then(parse_uuid);
            id.or_else(|| fields.refuse(&format!("{name}[{index}]"), "uuid", "a UUID"))
        })
        .collect();
    read.into_iter().collect()
}

/// The requested members, positions and groups that the company has.
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    pub(super) members: Vec<FoundMember>,
    pub(super) positions: Vec<FoundPosition>,
    pub(super) groups: Vec<FoundGroup>,
}

/// A member, active or not.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FoundMember {
    pub(super) id: MemberId,
    pub(super) display_name: String,
    pub(super) email: Option<String>,
    pub(super) is_active: bool,
    pub(super) kc_sub: Option<Subject>,
}

/// A position with its active holder, if any, and the holder's login where that was asked.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FoundPosition {
    pub(super) id: PositionId,
    pub(super) title: String,
    pub(super) holder_member_id: Option<MemberId>,
    pub(super) holder_display_name: Option<String>,
    pub(super) logins: Vec<Subject>,
}

/// A group, active or not, with the number of its active members and, where that was asked, the first thousand logins
/// linked to them.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct FoundGroup {
    pub(super) id: GroupId,
    pub(super) title: String,
    pub(super) is_active: bool,
    pub(super) member_count: i64,
    pub(super) logins: Vec<Subject>,
}

/// An assignable position, as the module contract defines it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AssignablePosition {
    pub(super) position_id: PositionId,
    pub(super) title: String,
    pub(super) holder_member_id: Option<MemberId>,
    pub(super) holder_display_name: Option<String>,
}

/// An assignable group, as the module contract defines it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AssignableGroup {
    pub(super) group_id: GroupId,
    pub(super) title: String,
    pub(super) member_count: i64,
}
