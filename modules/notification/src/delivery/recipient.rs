//! Checks whether a mail still has a recipient. A subscription belongs to a member and ends with the membership. org is
//! asked when the mail is sent, not when it is published, because retries go on for days.

use contract::CorrelationId;
use contract::id::CompanyId;
use service::ApiError;
use service::clients::org::{OrgClient, Wanted};
use sqlx::PgPool;

use super::store;
use crate::channels::rules::ChannelId;

/// Whether the address belongs only to subscribers who are no longer active members. False for the channel's own
/// address and for one that has no subscriber.
///
/// # Errors
/// 503 when the database or org cannot answer.
pub(super) async fn has_left(
    pool: &PgPool,
    org: &OrgClient,
    company: CompanyId,
    channel: ChannelId,
    address: &str,
) -> Result<bool, ApiError> {
    let members = store::subscribers_at(pool, company, channel, address).await?;
    if members.is_empty() {
        return Ok(false);
    }
    let wanted = Wanted { member_ids: members.clone(), ..Wanted::default() };
    let found = org.lookup(company, &wanted, &CorrelationId::generate()).await?;
    Ok(!members.into_iter().any(|member| found.is_active_member(member)))
}
