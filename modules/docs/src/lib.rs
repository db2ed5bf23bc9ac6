//! docs: documents of a company's members, each shared one by one or with its folder. `operations.rs` is the table of
//! operations; a request's way is `service`'s, but that a document or folder is looked up before its decision
//! (`admission.rs`): permit, query, the caller's place in the company, `rules.rs` (pure), `store.rs` (SQL). Every
//! statement names the company of the call, so another company's id is an unknown one.
//!
//! Shares, folders and owners stand for tuples in authz, which are the authority for opening a document; the rows are the
//! module's index for lists (`visibility.rs`, `documents/list.rs`). Both are changed by `service::two_store` alone.

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

/// Starts the workers: the sweep of rows which a crash left between two states, the one of relinked members' shares, and the one
/// that forgets former members.
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

/// Settles every row whose last attempt is older than `stale_after`, one table after the other.
///
/// # Errors
/// authz or the database cannot answer: the rest waits for the next round.
pub async fn sweep(parts: &App, stale_after: Duration) -> Result<(), ApiError> {
    let rows = parts.two_store();
    rows.sweep::<documents::new::MadeDocument>(stale_after).await?;
    rows.sweep::<folders::row::FolderRow>(stale_after).await?;
    rows.sweep::<placements::row::Swept>(stale_after).await?;
    rows.sweep::<shares::row::Swept>(stale_after).await?;
    rows.sweep::<ownership::row::Ownership>(stale_after).await?;
    Ok(())
}
