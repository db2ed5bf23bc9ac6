//! A thread for work that must not hold up requests, however much it is.

use std::{io, thread};

use rustix::process::nice;
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// How far it gives way to requests (`nice`); much more would leave a machine that has nothing to spare without metrics.
const GIVES_WAY: i32 = 10;

/// Starts it; it ends, and whatever runs there is dropped, with `end`.
///
/// # Errors
/// The thread cannot be made.
pub(crate) fn start(end: CancellationToken) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new().name("edge-apart".to_owned()).spawn(move || {
        if let Err(error) = nice(GIVES_WAY) {
            tracing::debug!(%error, "metrics are merged at the rank of requests");
        }
        runtime.block_on(end.cancelled());
    })?;
    Ok(handle)
}
