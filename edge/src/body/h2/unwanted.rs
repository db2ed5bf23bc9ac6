//! Reads the rest of a body whose request was answered early. Resetting a stream right after its answer makes some
//! clients lose the answer (curl 7.88 among them, despite RFC 9113, 8.1). So the rest is read and dropped: a moderate
//! body ends normally, and a client with a longer one gets the answer before the reset. Bytes, time and streams are
//! bounded.

use std::time::Duration;

use futures_util::future::BoxFuture;
use h2::RecvStream;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

/// The maximum read of one body. Given the windows, a client that has sent this much has long had its answer.
const MAX_BYTES: usize = 1 << 20;
/// How long the client has to send it; less than a drain takes.
const LONGEST: Duration = Duration::from_secs(5);
/// The longest pause: the answer takes at most this long to arrive, and a client that has it may have stopped sending.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Reads and drops the rest. Dropping the stream afterwards resets it with `NO_ERROR` if the client has not ended it.
#[cold]
#[inline(never)]
pub(crate) fn read_away(rest: RecvStream) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let read = timeout(LONGEST, read_to_bound(rest)).await;
        tracing::debug!(?read, "discarded the rest of a body");
    })
}

async fn read_to_bound(mut rest: RecvStream) -> Result<(), Elapsed> {
    let mut left = MAX_BYTES;
    while let Some(Ok(data)) = timeout(LONGEST_PAUSE, rest.data()).await? {
        let Some(still_left) = left.checked_sub(data.len()) else { break };
        left = still_left;
        // A stream closed in the meantime has no window to open.
        let _opened = rest.flow_control().release_capacity(data.len());
    }
    Ok(())
}
