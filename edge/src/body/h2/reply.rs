//! [`Reply`]: the stream's informational answers and its answer's head, and the unread rest of the request's body.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Response, StatusCode};

/// Shared by the task that answers the request and by the request's body, which passes on an upstream's informational
/// answers. Usually one task uses both, so the lock is hardly ever contended.
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

    /// Sends an informational answer. A failure to send it is only logged.
    pub(crate) fn inform(&self, status: StatusCode, headers: HeaderMap) {
        let mut head = Response::new(());
        *head.status_mut() = status;
        *head.headers_mut() = headers;
        if let Err(error) = self.lock().send_informational(head) {
            tracing::debug!(%error, "an informational answer was not sent");
        }
    }

    /// Sends the answer's head; its body, if it has one, goes to the returned stream.
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
