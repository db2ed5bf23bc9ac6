//! The rest of a body whose request was answered early. A stream that is reset right behind its answer loses the answer in
//! some clients (curl 7.88 among them, RFC 9113, 8.1, notwithstanding): the rest is read and dropped, so that a moderate body
//! comes to its end, and a longer one sends its client through the answer before the reset. What a client can make of this
//! is bounded in bytes, in time and in streams.

use std::time::Duration;

use futures_util::future::BoxFuture;
use h2::RecvStream;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

/// The most that is read of one body. By the windows a client that has sent as much has had its answer for long.
const MAX_BYTES: usize = 1 << 20;
/// How long the client has to send it, less than a drain takes.
const LONGEST: Duration = Duration::from_secs(5);
/// How long it may send nothing meanwhile: the answer is on its way so long at most, and a client that has it may have stopped.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Reads the rest away. Dropping the stream at the end of it resets it with `NO_ERROR`, where the client has not ended it.
#[cold]
#[inline(never)]
pub(crate) fn read_away(rest: RecvStream) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let read = timeout(LONGEST, read_to_bound(rest)).await;
        tracing::debug!(?read, "the rest of a body was not wanted");
    })
}

async fn read_to_bound(mut rest: RecvStream) -> Result<(), Elapsed> {
    let mut left = MAX_BYTES;
    while let Some(Ok(data)) = timeout(LONGEST_PAUSE, rest.data()).await? {
        let Some(still_left) = left.checked_sub(data.len()) else { break };
        left = still_left;
        // A stream that is closed meanwhile has no window to open.
        let _opened = rest.flow_control().release_capacity(data.len());
    }
    Ok(())
}
