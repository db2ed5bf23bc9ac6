//! Current names of assignees, with one look-up in org for all tickets of a response. Where org cannot answer, tickets
//! show the name that was stored at assignment.

use std::collections::HashMap;

use contract::Principal;
use service::CompanyCall;
use service::clients::org::Found;

use crate::App;

/// The names and titles that org returned.
#[derive(Debug, Default)]
pub struct Names(HashMap<Principal, String>);

impl Names {
    /// Looks the names up in org.
    pub(crate) async fn of_all(
        app: &App,
        call: &CompanyCall,
        principals: impl IntoIterator<Item = Principal>,
    ) -> Self {
        let found = app.org.lookup_all(call.company, principals, &call.correlation).await;
        Self(found.into_iter().flat_map(named).collect())
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
