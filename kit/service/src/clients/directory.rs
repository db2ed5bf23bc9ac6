//! The directory of a company's active members, as modules read it from org.

use contract::CorrelationId;
use contract::id::{CompanyId, MemberId};
use contract::page::{Page, PageRequest};
use http::Method;
use serde::Deserialize;

use super::org::OrgClient;
use crate::ApiError;
use crate::client::Call;

/// An active member of the company.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DirectoryEntry {
    /// The member.
    pub id: MemberId,
    /// For people.
    pub display_name: String,
}

impl OrgClient {
    /// One page of the company's active members, by display name and id.
    ///
    /// # Errors
    /// 503 when org cannot answer.
    pub async fn directory(
        &self,
        company: CompanyId,
        page: PageRequest,
        correlation: &CorrelationId,
    ) -> Result<Page<DirectoryEntry>, ApiError> {
        let (number, size) = (page.page, page.page_size);
        let path = format!("/internal/org/companies/{company}/members?page={number}&pageSize={size}");
        self.ask(Call::new(Method::GET, path), correlation).await
    }
}
