//! Current names of people, positions and groups, from org. They are for display only: while org does not answer,
//! responses show the names that were stored with the row.

use std::collections::{HashMap, HashSet};

use contract::id::MemberId;
use contract::{Principal, Subject};
use service::clients::org::Found;
use service::{ApiError, CompanyCall};

use crate::App;

/// Looks these principals up in org; `None` while org does not answer.
pub(crate) async fn found(
    app: &App,
    call: &CompanyCall,
    principals: impl IntoIterator<Item = Principal>,
) -> Option<Found> {
    match app.org.lookup_all(call.company, principals, &call.correlation).await {
        Ok(found) => Some(found),
        Err(error) => {
            tracing::warn!(%error, "org look-up failed; showing stored names");
            None
        }
    }
}

/// The current names of members; members that org does not name are absent.
pub(crate) async fn of_members(
    app: &App,
    call: &CompanyCall,
    members: impl Iterator<Item = MemberId>,
) -> HashMap<MemberId, String> {
    let found = found(app, call, members.map(Principal::Member)).await;
    found.into_iter().flat_map(|found| found.members).map(|member| (member.id, member.display_name)).collect()
}

/// Returns the current names of owners, by member row and login. Omits an owner whose row org has since linked to another
/// login, because the row then carries another person's name.
pub(crate) async fn of_owners(
    app: &App,
    call: &CompanyCall,
    owners: impl Iterator<Item = (MemberId, Subject)>,
) -> HashMap<(MemberId, Subject), String> {
    let owners: HashSet<(MemberId, Subject)> = owners.collect();
    let members = owners.iter().map(|(member, _)| Principal::Member(*member));
    let Some(found) = found(app, call, members).await else { return HashMap::new() };
    let name = |owner: (MemberId, Subject)| {
        let row = found.members.iter().find(|row| row.id == owner.0)?;
        let is_owners = row.kc_sub.as_ref().is_none_or(|login| *login == owner.1);
        is_owners.then(|| (owner, row.display_name.clone()))
    };
    owners.into_iter().filter_map(name).collect()
}

/// The title of a principal in a look-up result, active or not.
pub(crate) fn title_of(found: &Found, principal: Principal) -> Option<&str> {
    match principal {
        Principal::Member(id) => {
            found.members.iter().find(|member| member.id == id).map(|member| member.display_name.as_str())
        }
        Principal::Position(id) => {
            found.positions.iter().find(|position| position.id == id).map(|position| position.title.as_str())
        }
        Principal::Group(id) => {
            found.groups.iter().find(|group| group.id == id).map(|group| group.title.as_str())
        }
    }
}

/// The caller's active member row with its positions and groups.
///
/// # Errors
/// As [`service::clients::org::OrgClient::member_context`].
pub(crate) async fn place(
    app: &App,
    call: &CompanyCall,
) -> Result<service::clients::org::MemberContext, ApiError> {
    app.org.member_context(call).await
}
