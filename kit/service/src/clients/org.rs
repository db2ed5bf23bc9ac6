//! What modules ask org (`foundation.md` §2.4): the caller's place in a company, and what ids of it stand for.

use std::collections::BTreeSet;
use std::time::Duration;

use contract::decision::Reason;
use contract::envelope::code;
use contract::id::{CompanyId, GroupId, MemberId, PositionId};
use contract::{CorrelationId, Principal, Subject};
use futures_util::{StreamExt, TryStreamExt, stream};
use http::{Method, StatusCode};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use crate::client::{Call, Client, encode_segment};
use crate::forgetting::FormerMember;
use crate::{ApiError, CompanyCall, Inside};

/// How long org may take.
const CONTEXT_BUDGET: Duration = Duration::from_secs(1);

/// A caller as an active member of a company.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberContext {
    /// The member row linked to the caller.
    pub member: MemberId,
    /// The member's name, for people.
    pub display_name: Option<String>,
    /// Positions the member holds now.
    pub positions: Vec<PositionId>,
    /// Groups the member is in now.
    pub groups: Vec<GroupId>,
}

impl MemberContext {
    /// Whether the caller is this principal now: the member, a holder of the position, in the group.
    #[must_use]
    pub fn is(&self, principal: Principal) -> bool {
        match principal {
            Principal::Member(id) => self.member == id,
            Principal::Position(id) => self.positions.contains(&id),
            Principal::Group(id) => self.groups.contains(&id),
        }
    }

    /// The ids for SQL: the member's, the positions', the groups'; none of a caller who is no member.
    #[must_use]
    pub fn columns(caller: Option<&Self>) -> (Option<Uuid>, Vec<Uuid>, Vec<Uuid>) {
        let Some(caller) = caller else { return (None, Vec::new(), Vec::new()) };
        let positions = caller.positions.iter().map(|id| id.as_uuid()).collect();
        let groups = caller.groups.iter().map(|id| id.as_uuid()).collect();
        (Some(caller.member.as_uuid()), positions, groups)
    }
}

/// Ids of one kind that org takes in one look-up.
const IDS_AT_ONCE: usize = 200;

/// Look-ups that one call has under way at once.
const LOOK_UPS_AT_ONCE: usize = 5;

/// The ids that a look-up asks about, at most 200 of each kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wanted {
    /// Members.
    pub member_ids: Vec<MemberId>,
    /// Positions.
    pub position_ids: Vec<PositionId>,
    /// Groups.
    pub group_ids: Vec<GroupId>,
}

impl Wanted {
    /// Splits distinct principals into as few look-ups as org allows.
    pub fn parts(principals: impl IntoIterator<Item = Principal>) -> Vec<Self> {
        let distinct: BTreeSet<Principal> = principals.into_iter().collect();
        let members: Vec<_> = distinct.iter().filter_map(|principal| principal.member()).collect();
        let positions: Vec<_> = distinct.iter().filter_map(|principal| principal.position()).collect();
        let groups: Vec<_> = distinct.iter().filter_map(|principal| principal.group()).collect();
        let most = members.len().max(positions.len()).max(groups.len());
        let part = |at: usize| Self {
            member_ids: members.chunks(IDS_AT_ONCE).nth(at).unwrap_or_default().to_vec(),
            position_ids: positions.chunks(IDS_AT_ONCE).nth(at).unwrap_or_default().to_vec(),
            group_ids: groups.chunks(IDS_AT_ONCE).nth(at).unwrap_or_default().to_vec(),
        };
        (0..most.div_ceil(IDS_AT_ONCE)).map(part).collect()
    }
}

/// A look-up that asks for logins, too.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct WithLogins<'a> {
    #[serde(flatten)]
    wanted: &'a Wanted,
    with_logins: bool,
}

/// What of the wanted the company has; an id that is not there is unknown in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Found {
    /// Members, active or not.
    pub members: Vec<FoundMember>,
    /// Positions.
    pub positions: Vec<FoundPosition>,
    /// Groups, active or not.
    pub groups: Vec<FoundGroup>,
}

impl From<Principal> for Wanted {
    fn from(principal: Principal) -> Self {
        Self {
            member_ids: principal.member().into_iter().collect(),
            position_ids: principal.position().into_iter().collect(),
            group_ids: principal.group().into_iter().collect(),
        }
    }
}

/// A principal as org knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundPrincipal {
    /// Which one.
    pub principal: Principal,
    /// Name of the member, title of the position or group.
    pub title: String,
    /// Of a member: the subject that it is linked to.
    pub kc_sub: Option<Subject>,
}

impl Found {
    /// The principal, where the company has it: an active member, a position, an active group.
    #[must_use]
    pub fn principal(&self, principal: Principal) -> Option<FoundPrincipal> {
        let found = |title: &str, kc_sub| FoundPrincipal { principal, title: title.to_owned(), kc_sub };
        match principal {
            Principal::Member(id) => {
                let member = self.members.iter().find(|member| member.id == id && member.is_active)?;
                Some(found(&member.display_name, member.kc_sub.clone()))
            }
            Principal::Position(id) => {
                let position = self.positions.iter().find(|position| position.id == id)?;
                Some(found(&position.title, None))
            }
            Principal::Group(id) => {
                let group = self.groups.iter().find(|group| group.id == id && group.is_active)?;
                Some(found(&group.title, None))
            }
        }
    }

    /// Whether the company has this member and the member is active.
    #[must_use]
    pub fn is_active_member(&self, id: MemberId) -> bool {
        self.members.iter().any(|member| member.id == id && member.is_active)
    }
}

/// A member of the company.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundMember {
    /// The member.
    pub id: MemberId,
    /// For people.
    pub display_name: String,
    /// Where it has one.
    pub email: Option<String>,
    /// Whether it takes part.
    pub is_active: bool,
    /// The subject that it is linked to.
    pub kc_sub: Option<Subject>,
}

/// A position of the company. Where org does not say whether there is a login, there is none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundPosition {
    /// The position.
    pub id: PositionId,
    /// For people.
    pub title: String,
    /// The active member who holds it.
    pub holder_member_id: Option<MemberId>,
    /// The holder's name.
    pub holder_display_name: Option<String>,
    /// The holder's login, if any, where logins were asked. Whether it may act is for authz to say.
    #[serde(default)]
    pub logins: Vec<Subject>,
}

/// A group of the company.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundGroup {
    /// The group.
    pub id: GroupId,
    /// For people.
    pub title: String,
    /// Whether it counts.
    pub is_active: bool,
    /// Active members in it.
    pub member_count: i64,
    /// The logins linked to these, a thousand at most, where logins were asked.
    #[serde(default)]
    pub logins: Vec<Subject>,
}

/// A position that something can be assigned to, as the module contract shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssignablePosition {
    /// The position.
    pub position_id: PositionId,
    /// For people.
    pub title: String,
    /// The active member who holds it.
    pub holder_member_id: Option<MemberId>,
    /// The holder's name.
    pub holder_display_name: Option<String>,
}

/// A group that something can be assigned to, as the module contract shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AssignableGroup {
    /// The group.
    pub group_id: GroupId,
    /// For people.
    pub title: String,
    /// Active members in it.
    pub member_count: i64,
}

/// Asks org.
#[derive(Clone)]
pub struct OrgClient(Client);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    is_member: bool,
    is_active: bool,
    member_id: Option<MemberId>,
    #[serde(default)]
    display_name: Option<String>,
    position_ids: Vec<PositionId>,
    group_ids: Vec<GroupId>,
}

impl OrgClient {
    /// For org at `base_url`, asked with the services' credential.
    #[must_use]
    pub fn new(base_url: &str, inside: &Inside) -> Self {
        Self(Client::new("org", base_url, CONTEXT_BUDGET).inside(inside))
    }

    /// The caller's member row, positions and groups.
    ///
    /// # Errors
    /// 403 `AUTHORIZATION_DENIED` without a member row or with an inactive one; 503 when org cannot answer.
    pub async fn member_context(&self, call: &CompanyCall) -> Result<MemberContext, ApiError> {
        self.standing(call).await?.map_err(refused)
    }

    /// The same for an operation that an operator without a member row may call: `None` for whoever is no active member.
    ///
    /// # Errors
    /// 503 when org cannot answer.
    pub async fn member_context_if_any(&self, call: &CompanyCall) -> Result<Option<MemberContext>, ApiError> {
        Ok(self.standing(call).await?.ok())
    }

    /// Of each of these member rows (at most 200) with a login that it had: whether the two have parted for good. The row has
    /// another login now, or none while another row of the company has that login, active or not. A login that no row has may
    /// come back to its row.
    ///
    /// # Errors
    /// 503 when org cannot answer.
    pub async fn parted(
        &self,
        company: CompanyId,
        rows: &[(MemberId, Subject)],
        correlation: &CorrelationId,
    ) -> Result<Vec<bool>, ApiError> {
        let member_ids = rows.iter().map(|(member, _)| *member).collect();
        let found = self.lookup(company, &Wanted { member_ids, ..Wanted::default() }, correlation).await?;
        let mut parted = Vec::with_capacity(rows.len());
        for (member, login) in rows {
            let row = found.members.iter().find(|found| found.id == *member);
            let has_parted = if let Some(now) = row.and_then(|row| row.kc_sub.as_ref()) {
                now != login
            } else {
                let holder = self.context(company, login, correlation).await?;
                holder.is_member && holder.member_id.is_some_and(|holder| holder != *member)
            };
            parted.push(has_parted);
        }
        Ok(parted)
    }

    /// The member row that a login has in the company, active or not, with the member's name; `None` without a row.
    ///
    /// # Errors
    /// 503 when org cannot answer.
    pub async fn row_of(
        &self,
        company: CompanyId,
        login: &Subject,
        correlation: &CorrelationId,
    ) -> Result<Option<(MemberId, Option<String>)>, ApiError> {
        let found = self.context(company, login, correlation).await?;
        Ok(found.member_id.filter(|_| found.is_member).map(|member| (member, found.display_name)))
    }

    /// What these ids are in the company.
    ///
    /// # Errors
    /// 503 when org cannot answer.
    pub async fn lookup(
        &self,
        company: CompanyId,
        wanted: &Wanted,
        correlation: &CorrelationId,
    ) -> Result<Found, ApiError> {
        self.look_up(company, wanted, correlation).await
    }

    /// What these principals are in the company, however many there are: more than one look-up takes are asked in several
    /// that run concurrently. No principals ask org nothing.
    ///
    /// # Errors
    /// 503 when org cannot answer.
    pub async fn lookup_all(
        &self,
        company: CompanyId,
        principals: impl IntoIterator<Item = Principal>,
        correlation: &CorrelationId,
    ) -> Result<Found, ApiError> {
        let asked = Wanted::parts(principals)
            .into_iter()
            .map(async |wanted| self.lookup(company, &wanted, correlation).await);
        let joined = |mut all: Found, part: Found| async {
            all.members.extend(part.members);
            all.positions.extend(part.positions);
            all.groups.extend(part.groups);
            Ok(all)
        };
        stream::iter(asked).buffered(LOOK_UPS_AT_ONCE).try_fold(Found::default(), joined).await
    }

    /// As [`Self::lookup`], with the logins behind positions and groups.
    ///
    /// # Errors
    /// 503 when org cannot answer.
    pub async fn lookup_with_logins(
        &self,
        company: CompanyId,
        wanted: &Wanted,
        correlation: &CorrelationId,
    ) -> Result<Found, ApiError> {
        self.look_up(company, &WithLogins { wanted, with_logins: true }, correlation).await
    }

    async fn look_up(
        &self,
        company: CompanyId,
        body: &impl Serialize,
        correlation: &CorrelationId,
    ) -> Result<Found, ApiError> {
        let path = format!("/internal/org/companies/{company}/lookup");
        self.ask(Call::new(Method::POST, path).json(body), correlation).await
    }

    /// What one principal is in the company; `None` where it is unknown or inactive there.
    ///
    /// # Errors
    /// 503 when org cannot answer.
    pub async fn resolve(
        &self,
        call: &CompanyCall,
        principal: Principal,
    ) -> Result<Option<FoundPrincipal>, ApiError> {
        let found = self.lookup(call.company, &principal.into(), &call.correlation).await?;
        Ok(found.principal(principal))
    }

    /// The positions that something can be assigned to, by title.
    ///
    /// # Errors
    /// 503 when org cannot answer.
    pub async fn assignable_positions(
        &self,
        company: CompanyId,
        correlation: &CorrelationId,
    ) -> Result<Vec<AssignablePosition>, ApiError> {
        let path = format!("/internal/org/companies/{company}/assignables/positions");
        self.ask(Call::new(Method::GET, path), correlation).await
    }

    /// The groups that something can be assigned to, by title.
    ///
    /// # Errors
    /// 503 when org cannot answer.
    pub async fn assignable_groups(
        &self,
        company: CompanyId,
        correlation: &CorrelationId,
    ) -> Result<Vec<AssignableGroup>, ApiError> {
        let path = format!("/internal/org/companies/{company}/assignables/groups");
        self.ask(Call::new(Method::GET, path), correlation).await
    }

    /// The members that org has forgotten after the one at `after`, in that order; none when there is no more.
    ///
    /// # Errors
    /// 503 when org cannot answer.
    pub async fn former_members(
        &self,
        after: i64,
        correlation: &CorrelationId,
    ) -> Result<Vec<FormerMember>, ApiError> {
        self.ask(Call::new(Method::GET, format!("/internal/org/former-members?after={after}")), correlation)
            .await
    }

    /// The data of a 200; anything else is no answer.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        call: Call,
        correlation: &CorrelationId,
    ) -> Result<T, ApiError> {
        let answer = self.0.send(call.correlation(correlation)).await?;
        if answer.status != StatusCode::OK {
            return Err(self.0.unavailable(format!("status {}", answer.status)).into());
        }
        Ok(self.0.data(&answer)?)
    }

    /// The context of an active member, or the reason why there is none.
    async fn standing(&self, call: &CompanyCall) -> Result<Result<MemberContext, Reason>, ApiError> {
        let found = self.context(call.company, &call.subject, &call.correlation).await?;
        Ok(match found.member_id {
            Some(member) if found.is_member && found.is_active => {
                let Answer { display_name, position_ids, group_ids, .. } = found;
                Ok(MemberContext { member, display_name, positions: position_ids, groups: group_ids })
            }
            Some(_) if found.is_member => Err(Reason::CompanyAccessBlocked),
            _ => Err(Reason::CompanyMembershipRequired),
        })
    }

    async fn context(
        &self,
        company: CompanyId,
        login: &Subject,
        correlation: &CorrelationId,
    ) -> Result<Answer, ApiError> {
        let login = encode_segment(login.as_str());
        let path = format!("/internal/org/companies/{company}/members/by-kcsub/{login}/context");
        self.ask(Call::new(Method::GET, path), correlation).await
    }
}

fn refused(reason: Reason) -> ApiError {
    ApiError::Forbidden {
        code: code::AUTHORIZATION_DENIED,
        message: "the caller is no active member of the company".into(),
        details: json!({ "reason": reason }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hundred_of_a_kind_are_one_question_and_one_more_is_two() {
        let members: Vec<Principal> = (0..200).map(|_| Principal::Member(MemberId::mint())).collect();
        let sizes = |principals: Vec<Principal>| -> Vec<(usize, usize)> {
            let parts = Wanted::parts(principals);
            parts.iter().map(|part| (part.member_ids.len(), part.group_ids.len())).collect()
        };
        assert_eq!(sizes(vec![]), []);
        assert_eq!(sizes([members.clone(), members.clone()].concat()), [(200, 0)]);
        let more =
            [members, vec![Principal::Member(MemberId::mint()), Principal::Group(GroupId::mint())]].concat();
        assert_eq!(sizes(more), [(200, 1), (1, 0)]);
    }
}
