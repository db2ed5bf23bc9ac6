//! [`Reply`]: the stream's informational answers and the head of its answer, and the unread rest of the request's body.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Response, StatusCode};

/// Shared by whoever answers the request and by its body, through which an upstream's informational answers come. Both are
/// used by one task as a rule, so the lock is hardly ever waited for.
pub(crate) struct Reply {
    reply: Mutex<SendResponse<Bytes>>,
    unread: Mutex<Option<RecvStream>>,
}

impl Reply {
    pub(crate) const fn new(reply: SendResponse<Bytes>) -> Self {
        Self { reply: Mutex::new(reply), unread: Mutex::new(None) }
    }

    /// Keeps the rest of a body that was dropped before its end.
    #[cold]
    pub(crate) fn keep_unread(&self, rest: RecvStream) {
        *self.unread.lock().unwrap_or_else(PoisonError::into_inner) = Some(rest);
    }

    /// The rest of a body that was dropped before its end.
    #[cold]
    pub(crate) fn take_unread(&self) -> Option<RecvStream> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// An informational answer. One that can no longer be sent is nobody's loss.
    pub(crate) fn inform(&self, status: StatusCode, headers: HeaderMap) {
        let mut head = Response::new(());
        *head.status_mut() = status;
        *head.headers_mut() = headers;
        if let Err(error) = self.lock().send_informational(head) {
            tracing::debug!(%error, "an informational answer was not sent");
        }
    }

    /// The head of the answer; its body goes to what this yields, unless it has none.
    pub(crate) fn answer(&self, head: Response<()>, ended: bool) -> Result<SendStream<Bytes>, h2::Error> {
        self.lock().send_response(head, ended)
    }

    pub(crate) fn reset(&self, reason: Reason) {
        self.lock().send_reset(reason);
    }

    /// Resolves when the client has reset the stream or is gone.
    pub(crate) fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        self.lock().poll_reset(context).map(|_| ())
    }

    fn lock(&self) -> MutexGuard<'_, SendResponse<Bytes>> {
        self.reply.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
