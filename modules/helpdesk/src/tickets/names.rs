//! Current names of assignees, with one look-up in org for all tickets of a response. Where org cannot answer, tickets
//! show the name that was stored at assignment.

use std::collections::{BTreeSet, HashMap};

use contract::Principal;
use futures_util::future::join_all;
use service::clients::org::{Found, Wanted};
use service::{ApiError, CompanyCall};

use crate::App;

/// Ids of one kind that org takes in one look-up.
const AT_ONCE: usize = 200;

/// The names and titles that org returned.
#[derive(Debug, Default)]
pub struct Names(HashMap<Principal, String>);

impl Names {
    /// Looks the names up in org. More than [`AT_ONCE`] ids of a kind are looked up in several concurrent requests.
    pub(crate) async fn of_all(
        app: &App,
        call: &CompanyCall,
        principals: impl IntoIterator<Item = Principal>,
    ) -> Self {
        let wanted = parts(principals);
        let asked = wanted.iter().map(|wanted| app.org.lookup(call.company, wanted, &call.correlation));
        let found: Vec<Result<Found, ApiError>> = join_all(asked).await;
        Self(found.into_iter().filter_map(Result::ok).flat_map(named).collect())
    }

    /// The principal's current name or title.
    #[must_use]
    pub fn of(&self, principal: Principal) -> Option<String> {
        self.0.get(&principal).cloned()
    }
}

/// Each principal that org returned, with its name or title.
fn named(found: Found) -> impl Iterator<Item = (Principal, String)> {
    let Found { members, positions, groups } = found;
    let members = members.into_iter().map(|member| (Principal::Member(member.id), member.display_name));
    let positions = positions.into_iter().map(|position| (Principal::Position(position.id), position.title));
    let groups = groups.into_iter().map(|group| (Principal::Group(group.id), group.title));
    members.chain(positions).chain(groups)
}

/// Splits distinct principals into as few look-ups as org allows.
pub(crate) fn parts(principals: impl IntoIterator<Item = Principal>) -> Vec<Wanted> {
    let distinct: BTreeSet<Principal> = principals.into_iter().collect();
    let members: Vec<_> = distinct.iter().filter_map(|principal| principal.member()).collect();
    let positions: Vec<_> = distinct.iter().filter_map(|principal| principal.position()).collect();
    let groups: Vec<_> = distinct.iter().filter_map(|principal| principal.group()).collect();
    let most = members.len().max(positions.len()).max(groups.len());
    let part = |at: usize| Wanted {
        member_ids: members.chunks(AT_ONCE).nth(at).unwrap_or_default().to_vec(),
        position_ids: positions.chunks(AT_ONCE).nth(at).unwrap_or_default().to_vec(),
        group_ids: groups.chunks(AT_ONCE).nth(at).unwrap_or_default().to_vec(),
    };
    (0..most.div_ceil(AT_ONCE)).map(part).collect()
}

#[cfg(test)]
mod tests {
    use contract::id::{GroupId, MemberId};

    use super::*;

    #[test]
    fn two_hundred_of_a_kind_are_one_question_and_one_more_is_two() {
        let members: Vec<Principal> = (0..200).map(|_| Principal::Member(MemberId::mint())).collect();
        let sizes = |principals: Vec<Principal>| -> Vec<(usize, usize)> {
            let parts = parts(principals);
            parts.iter().map(|part| (part.member_ids.len(), part.group_ids.len())).collect()
        };
        assert_eq!(sizes(vec![]), []);
        assert_eq!(sizes([members.clone(), members.clone()].concat()), [(200, 0)]);
        let more =
            [members, vec![Principal::Member(MemberId::mint()), Principal::Group(GroupId::mint())]].concat();
        assert_eq!(sizes(more), [(200, 1), (1, 0)]);
    }
}
