//! Current names of people, positions and groups, from org. They are for display only: while org does not answer,
//! responses show the names that were stored with the row.

use std::collections::HashMap;

use contract::Principal;
use contract::id::MemberId;
use service::clients::org::{Found, Wanted};
use service::{ApiError, CompanyCall};

use crate::App;

/// Looks these ids up in org; `None` while org does not answer or when there are no ids.
pub(crate) async fn found(app: &App, call: &CompanyCall, wanted: &Wanted) -> Option<Found> {
    let asked = [wanted.member_ids.len(), wanted.position_ids.len(), wanted.group_ids.len()];
    if asked == [0; 3] {
        return None;
    }
    match app.org.lookup(call.company, wanted, &call.correlation).await {
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
    let mut ids: Vec<MemberId> = members.collect();
    ids.sort_unstable();
    ids.dedup();
    let wanted = Wanted { member_ids: ids, ..Wanted::default() };
    let found = found(app, call, &wanted).await;
    found.into_iter().flat_map(|found| found.members).map(|member| (member.id, member.display_name)).collect()
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
