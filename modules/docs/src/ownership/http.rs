//! Transfers the ownership of documents.

use axum::extract::State;
use contract::Principal;
use contract::fields::{Fields, FromBody};
use contract::id::MemberId;
use serde_json::json;
use service::{ApiError, CompanyCall, Data, UnreadBody};

use super::row::NewOwner;
use super::unfinished;
use crate::App;
use crate::admission::{self, Admitted};
use crate::documents::http::{managed, summary};
use crate::documents::rules::{Document, State as Stored, trashed};
use crate::documents::store::set_owner_member;
use crate::shares::rules::{is_owner, not_linked, unknown_principal};

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
        return if resumed {
            summary(app, admitted).await
        } else {
            set_member(app, admitted, member, &found.title).await
        };
    }
    if resumed {
        admitted.decide_again(app).await?;
    }
    let new = NewOwner {
        company: admitted.company,
        document: admitted.gist.id,
        subject,
        member,
        label: found.title,
        as_manager: admitted.as_manager,
        rights: admitted.gist.rights,
    };
    app.two_store().create(admitted, None, &new).await?;
    unfinished::finish(app, admitted, admitted.gist.id).await?;
    summary(app, admitted).await
}

/// Writes the owner's present member row to the document, if org has linked the one that it names to another login.
async fn set_member(
    app: &App,
    admitted: &mut Admitted,
    member: MemberId,
    label: &str,
) -> Result<Data<Document>, ApiError> {
    let (mut tx, document, _) = admitted.lock(app).await?;
    if document.state != Stored::Active {
        return Err(trashed());
    }
    if document.owner != admitted.gist.owner || document.owner_member == member {
        return Err(is_owner());
    }
    set_owner_member(&mut tx, document.id, member, label).await?;
    let told = json!({ "ownerMemberId": { "from": document.owner_member, "to": member } });
    let told = managed(admitted, told.as_object().cloned().unwrap_or_default());
    tx.commit("ownership.member_changed", document.audit_subject(), told).await?;
    summary(app, admitted).await
}
