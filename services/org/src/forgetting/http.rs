//! `GET /internal/org/former-members?after=SEQ`, for modules: the former members after a sequence number, in the order
//! in which they were forgotten.

use axum::extract::State;
use contract::id::{CompanyId, MemberId};
use serde::Serialize;
use service::{ApiError, Data, Insider, Query};

use super::store;
use crate::App;

/// Members per page.
const PAGE: i64 = 100;

/// A former member.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FormerMember {
    pub(super) seq: i64,
    pub(super) company_id: CompanyId,
    pub(super) member_id: MemberId,
    pub(super) kc_sub: String,
}

/// Returns one page; an empty page means that the client is up to date.
pub(crate) async fn former_members(
    State(app): State<App>,
    _insider: Insider,
    query: Query,
) -> Result<Data<Vec<FormerMember>>, ApiError> {
    let after = query.get("after").unwrap_or("0").parse::<i64>().ok().filter(|after| *after >= 0);
    let after =
        after.ok_or_else(|| ApiError::validation_field("after", "range", "a whole number, 0 or more"))?;
    Ok(Data(store::former_after(&app.core.pool, after, PAGE).await?))
}
