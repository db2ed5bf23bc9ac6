//! Transfers ownership.

use axum::extract::State;
use contract::Principal;
use contract::fields::{Fields, FromBody};
use contract::id::MemberId;
use service::{ApiError, CompanyCall, Data, UnreadBody};

use super::row::{self, NewOwner, Ownership};
use crate::App;
use crate::admission::{self, Admitted};
use crate::documents::http::summary;
use crate::documents::rules::Document;
use crate::shares::row::Swept as ShareRow;
use crate::shares::rules::{is_owner, not_linked, unknown_principal};

struct TransferBody(MemberId);

impl FromBody for TransferBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self(fields.uuid("memberId")?))
    }
}

/// A transfer that a crash broke off is finished first; the same transfer again is then done.
pub(crate) async fn transfer(
    State(app): State<App>,
    call: CompanyCall,
    body: UnreadBody,
) -> Result<Data<Document>, ApiError> {
    let admitted = admission::admit(&app, call).await?;
    let TransferBody(member) = body.read().await?.parse()?;
    let resumed = take_leftovers(&app, &admitted).await?;
    let found = app.org.resolve(&admitted, Principal::Member(member)).await?.ok_or_else(unknown_principal)?;
    let subject = found.kc_sub.ok_or_else(not_linked)?;
    if subject == admitted.gist.owner {
        return if resumed { summary(&app, &admitted).await } else { Err(is_owner()) };
    }
    let new = NewOwner {
        company: admitted.company,
        document: admitted.gist.id,
        subject,
        member,
        label: found.title,
        as_manager: admitted.as_manager,
    };
    app.two_store().create(&admitted, None, &new).await?;
    take_leftovers(&app, &admitted).await?;
    summary(&app, &admitted).await
}

/// Takes what transfers have left; tells whether there was anything.
async fn take_leftovers(app: &App, admitted: &Admitted) -> Result<bool, ApiError> {
    let (ownerships, shares) = row::leftovers(&app.core.pool, admitted.company, admitted.gist.id).await?;
    for id in &ownerships {
        gone(app.two_store().remove::<Ownership>(admitted, *id).await)?;
    }
    for id in &shares {
        gone(app.two_store().remove::<ShareRow>(admitted, *id).await)?;
    }
    Ok(!ownerships.is_empty() || !shares.is_empty())
}

/// What another request took meanwhile is gone as it should be.
fn gone<T>(removed: Result<T, ApiError>) -> Result<(), ApiError> {
    match removed {
        Ok(_) | Err(ApiError::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}
