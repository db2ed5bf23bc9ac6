//! docs: documents owned by a company's members, shared individually or through their folder. `operations.rs` is the
//! table of operations. A request takes the steps that `service` lays down for every module, except that its document
//! or folder is looked up before the decision (`admission.rs`): permit, query, the caller's member row, `rules.rs`
//! (pure), `store.rs` (SQL). Every statement filters by the company of the call, so another company's id is unknown.
//!
//! Shares, folders and owners mirror tuples in authz. The tuples decide who may open a document; the rows are the
//! module's index for lists (`visibility.rs`, `documents/list.rs`). Only `service::two_store` changes either.

pub mod access_requests;
mod admission;
pub mod comments;
pub mod documents;
pub mod folders;
pub mod former_members;
mod history;
mod names;
pub mod operations;
pub mod ownership;
pub mod placements;
pub mod shares;
mod store;
pub mod versions;
mod visibility;

use std::time::Duration;

pub use operations::operations;
pub use service::module::Parts as App;
use service::two_store::{STALE_AFTER, SWEEP_EVERY};
use service::{ApiError, ServeError};

service::declare_module! { key: "docs", port: 8170, operations: operations, settings: (), state: start }

/// Starts the workers: one settles rows that a crash left between two states, one removes shares of relinked members,
/// and one forgets former members.
///
/// # Errors
/// None.
pub fn start(parts: App, (): &()) -> Result<App, ServeError> {
    let aside = App { core: parts.core.for_workers(), ..parts.clone() };
    shares::relinked::start(&parts);
    parts.core.workers.every("docs_sweep", SWEEP_EVERY, move || {
        let parts = aside.clone();
        async move { sweep(&parts, STALE_AFTER).await }
    });
    parts.forget_members::<former_members::Names>();
    Ok(parts)
}

/// Settles every row whose last attempt is older than `stale_after`, table by table. A table that cannot be settled holds
/// up no other.
///
/// # Errors
/// authz or the database cannot answer; the remaining rows wait for the next round.
pub async fn sweep(parts: &App, stale_after: Duration) -> Result<(), ApiError> {
    let rows = parts.two_store();
    let outages = [
        rows.sweep::<documents::new::MadeDocument>(stale_after).await.err(),
        rows.sweep::<folders::row::FolderRow>(stale_after).await.err(),
        rows.sweep::<placements::row::Swept>(stale_after).await.err(),
        rows.sweep::<shares::row::Swept>(stale_after).await.err(),
        rows.sweep::<ownership::row::Ownership>(stale_after).await.err(),
    ];
    outages.into_iter().flatten().next().map_or(Ok(()), Err)
}
