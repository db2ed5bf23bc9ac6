//! Checks whether a mail still has a recipient. A subscription is the login's that set it, and ends when that login
//! unsubscribes, with the membership and with the login's account. org and authz are asked when the mail is sent, not
//! when it is published, because retries go on for days.

use contract::id::CompanyId;
use contract::{CorrelationId, Subject};
use service::ApiError;
use service::clients::authz::AuthzClient;
use service::clients::org::{Found, OrgClient, Wanted};
use sqlx::PgPool;

use super::outcome::{AUTHZ_UNAVAILABLE, INTERNAL, MEMBER_LEFT, ORG_UNAVAILABLE, UNSUBSCRIBED};
use super::store::{self, Standing, Subscriber};
use crate::channels::rules::ChannelId;

/// Who can say whether a subscriber still reads the channel.
pub(super) struct Recipients<'a> {
    pub(super) pool: &'a PgPool,
    pub(super) org: &'a OrgClient,
    pub(super) authz: &'a AuthzClient,
}

/// Why it is not known whether a mail has a recipient: the stored class, and the cause for the log.
pub(super) struct Unknown {
    pub(super) class: &'static str,
    pub(super) error: ApiError,
}

impl Recipients<'_> {
    /// Why the mail must not be sent any more: the address is neither the channel's own nor a subscriber's
    /// ([`UNSUBSCRIBED`]), or only that of subscribers who no longer read the channel ([`MEMBER_LEFT`]): no active member
    /// with the login that subscribed, or the login's account is suspended. `None` if it may be sent.
    pub(super) async fn gone(
        &self,
        company: CompanyId,
        channel: ChannelId,
        address: &str,
    ) -> Result<Option<&'static str>, Unknown> {
        let correlation = CorrelationId::generate();
        let standing = store::standing(self.pool, company, channel, address).await;
        let standing = standing.map_err(|error| Unknown { class: INTERNAL, error: error.into() })?;
        let subscribers = match standing {
            Standing::Own => return Ok(None),
            Standing::Of(subscribers) if subscribers.is_empty() => return Ok(Some(UNSUBSCRIBED)),
            Standing::Of(subscribers) => subscribers,
        };
        let member_ids = subscribers.iter().map(|one| one.member).collect();
        let wanted = Wanted { member_ids, ..Wanted::default() };
        let found = self.org.lookup(company, &wanted, &correlation).await;
        let found = found.map_err(|error| Unknown { class: ORG_UNAVAILABLE, error })?;
        for login in subscribers.iter().filter_map(|one| login_of(one, &found)) {
            let open = self.authz.company_of(company, login, &correlation).await;
            let open = open.map_err(|error| Unknown { class: AUTHZ_UNAVAILABLE, error: error.into() })?;
            if open.held {
                return Ok(None);
            }
        }
        Ok(Some(MEMBER_LEFT))
    }
}

/// The login of an active member, if it is the one that subscribed.
fn login_of<'a>(subscriber: &Subscriber, found: &'a Found) -> Option<&'a Subject> {
    let member = found.members.iter().find(|member| member.id == subscriber.member && member.is_active)?;
    let login = member.kc_sub.as_ref()?;
    subscriber.login.as_deref().is_none_or(|subscribed| subscribed == login.as_str()).then_some(login)
}
