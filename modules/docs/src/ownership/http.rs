//! Transfers the ownership of documents.

use axum::extract::State;
use contract::Principal;
use contract::fields::{Fields, FromBody};
use contract::id::MemberId;
use serde_json::json;
use service::{ApiError, CompanyCall, Data, UnreadBody};

use super::row::{self, NewOwner};
use super::unfinished;
use crate::App;
use crate::admission::{self, Admitted};
use crate::documents::http::{managed, summary};
use crate::documents::rules::{Document, State as Stored, trashed};
use crate::documents::store::set_owner_member;
use crate::shares::relinked;
use crate::shares::rules::{Target, is_owner, not_linked, unknown_principal};

struct TransferBody(MemberId);

impl FromBody for TransferBody {
    fn from_body(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self(fields.uuid("memberId")?))
    }
}

/// Transfers a document. An interrupted transfer is finished first; repeating it then succeeds. The former owner was
/// admitted by the tuple that finishing removes, so a transfer to any other member is decided again.
pub(crate) async fn transfer(
    State(app): State<App>,
    call: CompanyCall,
    body: UnreadBody,
) -> Result<Data<Document>, ApiError> {
    let mut admitted = admission::admit_transfer(&app, call).await?;
    let TransferBody(member) = body.read().await?.parse()?;
    loop {
        match transfer_to(&app, &mut admitted, member).await {
            Err(refused) if admitted.is_decided_again(&app, &refused).await? => {}
            settled => return settled,
        }
    }
}

async fn transfer_to(
    app: &App,
    admitted: &mut Admitted,
    member: MemberId,
) -> Result<Data<Document>, ApiError> {
    let resumed = unfinished::finish(app, admitted, admitted.gist.id).await?;
    let found = app.org.resolve(admitted, Principal::Member(member)).await?.ok_or_else(unknown_principal)?;
    let subject = found.kc_sub.ok_or_else(not_linked)?;
    if subject == admitted.gist.owner {
        if !resumed && !set_member(app, admitted, member, Some(&found.title)).await? {
            return Err(is_owner());
        }
        return summary(app, admitted).await;
    }
    if resumed {
        admitted.decide_again(app).await?;
    }
    settle_owner(app, admitted).await?;
    let new = NewOwner {
        company: admitted.company,
        document: admitted.gist.id,
        subject,
        member,
        label: found.title,
        as_manager: admitted.as_manager,
        rights: admitted.gist.rights,
    };
    admitted.two_store(app).create(admitted, None, &new).await?;
    unfinished::finish(app, admitted, admitted.gist.id).await?;
    summary(app, admitted).await
}

/// Writes the member row that the owner has now to the document, and removes the shares that were given to another login
/// of this row: the share that the owner gets instead of the document names it.
async fn settle_owner(app: &App, admitted: &mut Admitted) -> Result<(), ApiError> {
    let owner = admitted.gist.owner.clone();
    let found = app.org.row_of(admitted.company, &owner, &admitted.correlation).await?;
    let Some((member, name)) = found else { return Ok(()) };
    relinked::settle_link(app, admitted, Target::Document(admitted.gist.id), member, &owner).await?;
    if row::names_another(&app.core.pool, admitted.company, admitted.gist.id, &owner, member).await? {
        set_member(app, admitted, member, name.as_deref()).await?;
    }
    Ok(())
}

/// Writes the owner's present member row to the document, if org has linked the one that it names to another login.
/// Returns false if the document names this row, or has another owner.
async fn set_member(
    app: &App,
    admitted: &mut Admitted,
    member: MemberId,
    label: Option<&str>,
) -> Result<bool, ApiError> {
    let owner = admitted.gist.owner.clone();
    let (mut tx, document, _) = admitted.lock(app).await?;
    if document.state != Stored::Active {
        return Err(trashed());
    }
    if document.owner != owner || document.owner_member == member {
        tx.unchanged().await?;
        return Ok(false);
    }
    set_owner_member(&mut tx, document.id, member, label).await?;
    let told = json!({ "ownerMemberId": { "from": document.owner_member, "to": member } });
    let told = managed(admitted, told.as_object().cloned().unwrap_or_default());
    tx.commit("ownership.member_changed", document.audit_subject(), told).await?;
    Ok(true)
}
