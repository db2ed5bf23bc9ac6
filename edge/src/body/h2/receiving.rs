//! [`Receiving`]: a request's body on its stream. Reading opens the client's window, so nothing is buffered ahead of
//! the sender to the upstream. The last piece of a declared length is held back until the stream has ended: until then
//! the request may turn out to be malformed, and an upstream with every byte would take it for complete.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, RecvStream};
use http::header::{CONTENT_LENGTH, EXPECT};
use http::{HeaderMap, StatusCode};
use http_body::{Frame, SizeHint};

use crate::body::h2::reply::Reply;
use crate::body::upload::ClientFault;
use crate::http::h1::framing::{Declared, Length};
use crate::http::h2::blocks::Marks;
use crate::http::headers::{has_padded_value, strip_answer};

/// A request's body.
pub(crate) struct Receiving {
    /// `None` if there is no body.
    stream: Option<RecvStream>,
    /// The bytes still to come, if the client has declared the length.
    left: Option<u64>,
    /// The client waits for a 100.
    expects: bool,
    /// The last piece, while the stream's end is awaited.
    last: Option<Bytes>,
    /// Received, but not yet passed on.
    trailers: Option<HeaderMap>,
    marks: Arc<Marks>,
    reply: Arc<Reply>,
}

impl Receiving {
    /// The body that this head announces.
    pub(crate) fn new(stream: RecvStream, headers: &HeaderMap, marks: Arc<Marks>, reply: Arc<Reply>) -> Self {
        let mut body = Self::none(marks, reply);
        if !stream.is_end_stream() {
            body.stream = Some(stream);
            body.left = announced_length(headers);
            // The guard refuses any other expectation.
            body.expects = headers.contains_key(EXPECT);
        }
        body
    }

    /// No body.
    pub(crate) const fn none(marks: Arc<Marks>, reply: Arc<Reply>) -> Self {
        Self { stream: None, left: Some(0), expects: false, last: None, trailers: None, marks, reply }
    }

    /// The next frame of the body. A stream that ends early is the client's fault.
    pub(crate) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ClientFault>>> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
        if let Some(trailers) = self.trailers.take() {
            return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
        }
        loop {
            match stream.poll_data(context) {
                Poll::Ready(Some(Ok(data))) if data.is_empty() => {}
                Poll::Ready(Some(Ok(data))) => {
                    self.expects = false;
                    // A stream closed in the meantime has no window to open.
                    let _opened = stream.flow_control().release_capacity(data.len());
                    if self.left == Some(count(&data)) && !stream.is_end_stream() {
                        self.last = Some(data);
                        continue;
                    }
                    return Poll::Ready(Some(Ok(self.piece(data))));
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
        let Ok(trailers) = ready!(stream.poll_trailers(context)) else {
            return Poll::Ready(Some(Err(ClientFault::Broken)));
        };
        let is_marked = trailers.is_some() && self.marks.take_trailers(stream.stream_id().as_u32());
        let is_padded = trailers.as_ref().is_some_and(has_padded_value);
        if is_padded {
            self.marks.count();
        }
        if is_marked || is_padded {
            self.reply.reset(Reason::PROTOCOL_ERROR);
            return Poll::Ready(Some(Err(ClientFault::Broken)));
        }
        if let Some(last) = self.last.take() {
            self.trailers = trailers;
            return Poll::Ready(Some(Ok(self.piece(last))));
        }
        Poll::Ready(trailers.map(|trailers| Ok(Frame::trailers(trailers))))
    }

    fn piece(&mut self, data: Bytes) -> Frame<Bytes> {
        self.left = self.left.map(|left| left.saturating_sub(count(&data)));
        Frame::data(data)
    }

    /// Whether the body is complete.
    pub(crate) fn is_end(&self) -> bool {
        let is_held = self.last.is_some() || self.trailers.is_some();
        !is_held && self.stream.as_ref().is_none_or(RecvStream::is_end_stream)
    }

    /// The bytes still to come, if known.
    pub(crate) fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::new, SizeHint::with_exact)
    }

    /// Passes an informational answer on.
    pub(crate) fn inform(&self, status: StatusCode, headers: &HeaderMap) {
        // The gateway sends its own 100, when the body is wanted.
        if status == StatusCode::CONTINUE {
            return;
        }
        let mut headers = headers.clone();
        strip_answer(&mut headers);
        self.reply.inform(status, headers);
    }
}

impl Drop for Receiving {
    /// Hands the unread rest of the body to the reply, because the client may still be sending it.
    fn drop(&mut self) {
        // A declared length reaches 0 only at the stream's end, so most bodies need no query.
        let is_over = self.left == Some(0) && self.last.is_none();
        if let Some(rest) = self.stream.take().filter(|rest| !is_over && !rest.is_end_stream()) {
            self.reply.keep_unread(rest);
        }
    }
}

fn count(data: &Bytes) -> u64 {
    u64::try_from(data.len()).unwrap_or(u64::MAX)
}

/// The length that a head declares exactly once and well-formed. `h2` enforces it; any other declaration is ignored.
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
