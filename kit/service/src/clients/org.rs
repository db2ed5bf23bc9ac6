//! The caller's place in a company, from org (`foundation.md` §2.4).

use std::time::Duration;

use contract::decision::Reason;
use contract::envelope::code;
use contract::id::{CompanyId, GroupId, MemberId, PositionId};
use contract::{CorrelationId, Subject};
use http::{Method, StatusCode};
use serde::Deserialize;
use serde_json::json;

use crate::ApiError;
use crate::client::{Call, Client, encode_segment};

/// How long org may take.
const CONTEXT_BUDGET: Duration = Duration::from_secs(1);

/// A caller as an active member of a company.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberContext {
    /// The member row linked to the caller.
    pub member: MemberId,
    /// Positions the member holds now.
    pub positions: Vec<PositionId>,
    /// Groups the member is in now.
    pub groups: Vec<GroupId>,
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
    position_ids: Vec<PositionId>,
    group_ids: Vec<GroupId>,
}

impl OrgClient {
    /// For org at `base_url`.
    #[must_use]
    pub fn new(base_url: &str) -> Self {
        Self(Client::new("org", base_url, CONTEXT_BUDGET))
    }

    /// The caller's member row, positions and groups.
    ///
    /// # Errors
    /// 403 `AUTHORIZATION_DENIED` without a member row or with an inactive one; 503 when org cannot answer.
    pub async fn member_context(
        &self,
        company: CompanyId,
        subject: &Subject,
        correlation: &CorrelationId,
    ) -> Result<MemberContext, ApiError> {
        self.standing(company, subject, correlation).await?.map_err(refused)
    }

    /// The same for an operation that an operator without a member row may call: `None` for whoever is no active member.
    ///
    /// # Errors
    /// 503 when org cannot answer.
    pub async fn member_context_if_any(
        &self,
        company: CompanyId,
        subject: &Subject,
        correlation: &CorrelationId,
    ) -> Result<Option<MemberContext>, ApiError> {
        Ok(self.standing(company, subject, correlation).await?.ok())
    }

    /// The context of an active member, or the reason why there is none.
    async fn standing(
        &self,
        company: CompanyId,
        subject: &Subject,
        correlation: &CorrelationId,
    ) -> Result<Result<MemberContext, Reason>, ApiError> {
        let subject = encode_segment(subject.as_str());
        let path = format!("/internal/org/companies/{company}/members/by-kcsub/{subject}/context");
        let answer = self.0.send(Call::new(Method::GET, path).correlation(correlation)).await?;
        if answer.status != StatusCode::OK {
            return Err(self.0.unavailable(format!("status {}", answer.status)).into());
        }
        let found: Answer = self.0.data(&answer)?;
        Ok(match found.member_id {
            Some(member) if found.is_member && found.is_active => {
                Ok(MemberContext { member, positions: found.position_ids, groups: found.group_ids })
            }
            Some(_) if found.is_member => Err(Reason::CompanyAccessBlocked),
            _ => Err(Reason::CompanyMembershipRequired),
        })
    }
}

fn refused(reason: Reason) -> ApiError {
    ApiError::Forbidden {
        code: code::AUTHORIZATION_DENIED,
        message: "the caller is no active member of the company".into(),
        details: json!({ "reason": reason }),
    }
}
