//! `/internal/org/me/companies?kcSub=`; the gateway sets `kcSub` to the bearer's subject.

use axum::extract::State;
use contract::Subject;
use service::{ApiError, Data, Query, Reader};

use super::store::{self, OrgMeCompany};
use crate::App;

/// Lists the active companies in which the subject is an active member.
pub(crate) async fn mine(
    State(app): State<App>,
    reader: Reader,
    query: Query,
) -> Result<Data<Vec<OrgMeCompany>>, ApiError> {
    let subject = query.get("kcSub").and_then(Subject::parse).ok_or_else(|| {
        ApiError::validation_field(
            "kcSub",
            "length",
            "a subject of 1 to 255 characters without control characters",
        )
    })?;
    reader.of_itself(&subject)?;
    // Its length is that of the subject's memberships, and it is not paged.
    let _read = match &reader {
        Reader::Subject(_) => Some(app.core.long_reads.enter(&subject).await?),
        Reader::Insider => None,
    };
    Ok(Data(store::of_subject(&app.core.reads, &subject).await?))
}
