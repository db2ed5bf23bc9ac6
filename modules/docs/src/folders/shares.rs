//! Shares of folders. Managers of the folder give, change and remove them; a member may remove the member's own.

use axum::extract::State;
use axum::response::Response;
use service::idempotency::Once;
use service::{ApiError, CompanyCall, Data, Feature, UnreadBody};

use super::admission;
use crate::App;
use crate::documents::answer::uncached;
use crate::shares::http::{change, give, is_own, listed, named, of_path, take};
use crate::shares::rules::{CreateBody, Right, RoleBody, Shown, Target, ambiguous};

pub(crate) async fn list(State(app): State<App>, call: CompanyCall) -> Result<Response, ApiError> {
    let _read = app.core.long_reads.enter(&call.subject).await?;
    let admitted = admission::admit(&app, call).await?;
    let target = Target::Folder(admitted.id);
    Ok(uncached(Data(listed(&app, &admitted, target, admitted.as_manager).await?)))
}

pub(crate) async fn create(
    State(app): State<App>,
    call: CompanyCall,
    body: UnreadBody,
) -> Result<Once<Shown>, ApiError> {
    let admitted = admission::admit(&app, call).await?;
    let body: CreateBody = body.read().await?.parse()?;
    let principal = body.named.one().ok_or_else(ambiguous)?;
    let target = Target::Folder(admitted.id);
    if admitted.as_manager {
        give::<true>(&app, &admitted.two_store(&app), &admitted, target, (principal, body.role), Right::WHOLE)
            .await
    } else {
        give::<false>(
            &app,
            &admitted.two_store(&app),
            &admitted,
            target,
            (principal, body.role),
            Right::WHOLE,
        )
        .await
    }
}

pub(crate) async fn update(
    State(app): State<App>,
    call: CompanyCall,
    body: UnreadBody,
) -> Result<Data<Shown>, ApiError> {
    let admitted = admission::admit(&app, call).await?;
    let RoleBody { role } = body.read().await?.parse()?;
    let share = of_path(&app, &admitted, Target::Folder(admitted.id)).await?;
    let changed = if admitted.as_manager {
        change::<true>(&app, &admitted.two_store(&app), &admitted, share, role, Right::WHOLE).await?
    } else {
        change::<false>(&app, &admitted.two_store(&app), &admitted, share, role, Right::WHOLE).await?
    };
    Ok(Data(named(&app, &admitted, changed).await))
}

pub(crate) async fn delete(State(app): State<App>, call: CompanyCall) -> Result<Data<Shown>, ApiError> {
    let target = Target::Folder(call.path.id("folderId")?);
    if is_own(&app, &call, target).await? {
        let permit = app.permits.ask_module(&call, &Feature::of_module(call.feature.key, "member")).await?;
        let share = of_path(&app, &permit, target).await?;
        let taken = take::<false>(&app.two_store(), &permit, share, Right::WHOLE).await?;
        return Ok(Data(named(&app, &permit, taken).await));
    }
    let admitted = admission::admit(&app, call).await?;
    let share = of_path(&app, &admitted, target).await?;
    let store = admitted.two_store(&app);
    let taken = if admitted.as_manager {
        take::<true>(&store, &admitted, share, Right::WHOLE).await?
    } else {
        take::<false>(&store, &admitted, share, Right::WHOLE).await?
    };
    Ok(Data(named(&app, &admitted, taken).await))
}
