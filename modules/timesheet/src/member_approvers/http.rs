//! Lists and assigns approvers.

use axum::extract::State;
use contract::page::Page;
use serde_json::json;
use service::{ApiError, Body, Data, LimitedRead, Permit, Query};

use super::rules::{Assignment, Wish};
use super::store;
use crate::App;

pub(crate) async fn list(
    State(app): State<App>,
    permit: LimitedRead<Permit>,
    query: Query,
) -> Result<Data<Page<Assignment>>, ApiError> {
    Ok(Data(store::list(&app.core.reads, &permit, query.page()?).await?))
}

pub(crate) async fn assign(
    State(app): State<App>,
    permit: Permit,
    Body(wish): Body<Wish>,
) -> Result<Data<Assignment>, ApiError> {
    let wish = wish.of_two()?;
    wish.check(&app.org.lookup(permit.company, &wish.wanted(), &permit.correlation).await?)?;
    let mut tx = permit.begin(&app.core).await?;
    store::lock(&mut tx, wish.member).await?;
    let before = store::find(&mut tx, wish.member).await?;
    if let Some(same) = before.filter(|before| before.approver_member_id == wish.approver) {
        tx.unchanged().await?;
        return Ok(Data(same));
    }
    let after = store::save(&mut tx, wish).await?;
    for moved in store::repoint(&mut tx, wish).await? {
        let payload = json!({ "assignedApproverMemberId": { "from": moved.from, "to": wish.approver } });
        tx.record("submission.reassigned", format!("submission:{}", moved.submission), payload).await?;
    }
    let from = before.map(|before| before.approver_member_id);
    let payload = json!({ "approverMemberId": { "from": from, "to": after.approver_member_id } });
    tx.commit("approver.assigned", format!("member:{}", after.member_id), payload).await?;
    Ok(Data(after))
}
