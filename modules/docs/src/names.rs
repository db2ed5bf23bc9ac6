//! Names of people, positions and groups as org says them now. They are for people only, so an answer does without them
//! while org does not answer, and shows the names that were stored when something was given.

use std::collections::HashMap;

use contract::Principal;
use contract::id::MemberId;
use service::clients::org::{Found, Wanted};
use service::{ApiError, CompanyCall};

use crate::App;

/// What org says of these ids; nothing while it does not answer.
pub(crate) async fn found(app: &App, call: &CompanyCall, wanted: &Wanted) -> Option<Found> {
    let asked = [wanted.member_ids.len(), wanted.position_ids.len(), wanted.group_ids.len()];
    if asked == [0; 3] {
        return None;
    }
    match app.org.lookup(call.company, wanted, &call.correlation).await {
        Ok(found) => Some(found),
        Err(error) => {
            tracing::warn!(%error, "names are shown as they were stored");
            None
        }
    }
}

/// The names of members.
pub(crate) async fn of_members(
    app: &App,
    call: &CompanyCall,
    members: impl Iterator<Item = MemberId>,
) -> HashMap<MemberId, String> {
    let mut ids: Vec<MemberId> = members.collect();
    ids.sort_unstable();
    ids.dedup();
    let wanted = Wanted { member_ids: ids, ..Wanted::default() };
    let found = found(app, call, &wanted).await;
    found.into_iter().flat_map(|found| found.members).map(|member| (member.id, member.display_name)).collect()
}

/// The title of a principal among what was found, active or not.
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

/// The caller's active member row, or the refusal that says why there is none.
///
/// # Errors
/// As [`service::clients::org::OrgClient::member_context`].
pub(crate) async fn place(
    app: &App,
    call: &CompanyCall,
) -> Result<service::clients::org::MemberContext, ApiError> {
    app.org.member_context(call).await
}
