//! [`Receiving`]: a request's body on its stream. The client's window opens as the body is read, so that nothing is read
//! ahead of whoever sends it on.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, StatusCode};
use http_body::{Frame, SizeHint};

use super::reply::Reply;
use crate::wire::h1::framing::{Declared, Length};
use crate::wire::headers::strip_answer;
use crate::wire::upload::ClientFault;

/// A request's body.
pub(crate) struct Receiving {
    /// None where there is no body.
    stream: Option<RecvStream>,
    /// What is still to come, where the client has said how much.
    left: Option<u64>,
    /// The client waits for a 100.
    expects: bool,
    reply: Arc<Reply>,
}

impl Receiving {
    /// The body that this head announces.
    pub(super) fn new(stream: RecvStream, headers: &HeaderMap, reply: Arc<Reply>) -> Self {
        if stream.is_end_stream() {
            return Self::none(reply);
        }
        Self {
            stream: Some(stream),
            left: announced_length(headers),
            // Whatever else is expected, the way refuses.
            expects: headers.contains_key(EXPECT),
            reply,
        }
    }

    /// No body.
    pub(super) const fn none(reply: Arc<Reply>) -> Self {
        Self { stream: None, left: Some(0), expects: false, reply }
    }

    /// The next frame of the body. Whatever ends the stream before its end is the client's fault.
    pub(crate) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientFault>>> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
        loop {
            match stream.poll_data(context) {
                Poll::Ready(Some(Ok(data))) if data.is_empty() => {}
                Poll::Ready(Some(Ok(data))) => {
                    self.expects = false;
                    self.left = self.left.map(|left| left.saturating_sub(count(&data)));
                    // A stream that is closed meanwhile has no window to open.
                    let _opened = stream.flow_control().release_capacity(data.len());
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Some(Err(ClientFault::Broken))),
                // Trailers may follow.
                Poll::Ready(None) => break,
                Poll::Pending => {
                    if std::mem::take(&mut self.expects) {
                        self.reply.inform(StatusCode::CONTINUE, HeaderMap::new());
                    }
                    return Poll::Pending;
                }
            }
        }
        match ready!(stream.poll_trailers(context)) {
            Ok(trailers) => Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers)))),
            Err(_) => Poll::Ready(Some(Err(ClientFault::Broken))),
        }
    }

    /// Whether nothing more comes.
    pub(crate) fn is_end(&self) -> bool {
        self.stream.as_ref().is_none_or(RecvStream::is_end_stream)
    }

    /// What is still to come, where that is known.
    pub(crate) fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::new, SizeHint::with_exact)
    }

    /// Passes an informational answer on.
    pub(crate) fn inform(&self, status: StatusCode, headers: &HeaderMap) {
        // A 100 is the edge's own affair, and is sent when the body is wanted.
        if status == StatusCode::CONTINUE {
            return;
        }
        let mut headers = headers.clone();
        strip_answer(&mut headers);
        self.reply.inform(status, headers);
    }
}

fn count(data: &Bytes) -> u64 {
    u64::try_from(data.len()).unwrap_or(u64::MAX)
}

/// The length that a head announces once and plainly. The crate holds its sender to that; another announcement says
/// nothing.
pub(crate) fn announced_length(headers: &HeaderMap) -> Option<u64> {
    let mut declared = Declared::default();
    for value in headers.get_all(CONTENT_LENGTH) {
        declared.length(value.as_bytes());
    }
    match declared.read() {
        Ok(Some(Length::Exact(length))) => Some(length),
        Ok(Some(Length::Chunked | Length::UntilClose) | None) | Err(_) => None,
    }
}
