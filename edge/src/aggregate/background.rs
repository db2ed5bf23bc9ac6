//! A thread for bulk work that must not delay requests.

use std::{io, thread};

use rustix::process::nice;
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// The thread's niceness; a much higher value would starve metrics on a fully loaded machine.
const GIVES_WAY: i32 = 10;

/// Starts the thread; when `end` is cancelled it exits and drops everything running on it.
///
/// # Errors
/// The thread cannot be created.
pub(crate) fn start(end: CancellationToken) -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new().name("edge-background".to_owned()).spawn(move || {
        if let Err(error) = nice(GIVES_WAY) {
            tracing::debug!(%error, "cannot lower the priority of the metrics thread");
        }
        runtime.block_on(end.cancelled());
    })?;
    Ok(handle)
}
