//! The recipient of something in a company: exactly one of a member, a position and a group. org resolves it
//! (`service::clients::org`).

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::fields::Fields;
use crate::id::{GroupId, MemberId, PositionId};

crate::words! {
    /// The three kinds.
    pub enum PrincipalKind {
        /// One member.
        Member = "member",
        /// The position's current holder.
        Position = "position",
        /// The group's current members.
        Group = "group",
    }
}

/// A member, a position or a group of one company.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Principal {
    /// One member.
    Member(MemberId),
    /// The position's current holder.
    Position(PositionId),
    /// The group's current members.
    Group(GroupId),
}

/// The principals that a body names; a module's rules require exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// None.
    None,
    /// Exactly one.
    One(Principal),
    /// More than one.
    Many,
}

impl Named {
    /// Reads the optional members `memberId`, `positionId` and `groupId`.
    pub fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let member = fields.optional_uuid("memberId");
        let position = fields.optional_uuid("positionId");
        let group = fields.optional_uuid("groupId");
        Some(Self::of(member?, position?, group?))
    }

    /// The same from three columns.
    #[must_use]
    pub fn of(member: Option<MemberId>, position: Option<PositionId>, group: Option<GroupId>) -> Self {
        match (member, position, group) {
            (None, None, None) => Self::None,
            (Some(id), None, None) => Self::One(Principal::Member(id)),
            (None, Some(id), None) => Self::One(Principal::Position(id)),
            (None, None, Some(id)) => Self::One(Principal::Group(id)),
            _ => Self::Many,
        }
    }

    /// The principal, if there is exactly one.
    #[must_use]
    pub const fn one(self) -> Option<Principal> {
        match self {
            Self::One(principal) => Some(principal),
            Self::None | Self::Many => None,
        }
    }
}

impl Principal {
    /// Its kind.
    #[must_use]
    pub const fn kind(self) -> PrincipalKind {
        match self {
            Self::Member(_) => PrincipalKind::Member,
            Self::Position(_) => PrincipalKind::Position,
            Self::Group(_) => PrincipalKind::Group,
        }
    }

    /// The id, if it is a member.
    #[must_use]
    pub const fn member(self) -> Option<MemberId> {
        if let Self::Member(id) = self { Some(id) } else { None }
    }

    /// The id, if it is a position.
    #[must_use]
    pub const fn position(self) -> Option<PositionId> {
        if let Self::Position(id) = self { Some(id) } else { None }
    }

    /// The id, if it is a group.
    #[must_use]
    pub const fn group(self) -> Option<GroupId> {
        if let Self::Group(id) = self { Some(id) } else { None }
    }
}

impl Serialize for Principal {
    /// `{"memberId", "positionId", "groupId"}`, two of them `null`; for `#[serde(flatten)]`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut members = serializer.serialize_map(Some(3))?;
        members.serialize_entry("memberId", &self.member())?;
        members.serialize_entry("positionId", &self.position())?;
        members.serialize_entry("groupId", &self.group())?;
        members.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fields::{FromBody, parse};

    struct Body(Named);

    impl FromBody for Body {
        fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
            Named::read(fields).map(Self)
        }
    }

    #[test]
    fn exactly_one_id_names_a_principal() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        let named = |body| parse::<Body>(&body).map(|Body(named)| named).expect("well-formed");
        assert_eq!(named(json!({})), Named::None);
        assert_eq!(named(json!({ "memberId": null })), Named::None);
        assert_eq!(named(json!({ "memberId": id, "groupId": id })), Named::Many);
        for (name, kind) in [("memberId", "member"), ("positionId", "position"), ("groupId", "group")] {
            let one = named(json!({ name: id })).one().expect("one");
            assert_eq!(one.kind().word(), kind);
            let mut expected = json!({ "memberId": null, "positionId": null, "groupId": null });
            expected[name] = json!(id);
            assert_eq!(json!(one), expected);
        }
        assert!(
            parse::<Body>(&json!({ "memberId": "x", "groupId": 7 })).is_err_and(|wrong| wrong.len() == 2)
        );
    }
}
