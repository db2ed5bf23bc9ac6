//! [`Line`]: a client's socket with its unparsed input and its unsent output. One task owns it together with the
//! request's body, which reads from it, so its lock is never contended.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::io::poll_read_buf;

use crate::body::request::Client;
use crate::body::upload::ClientFault;
use crate::config::Limits;
use crate::http::h1::head::RequestHead;
use crate::http::h1::output::Output;
use crate::http::h1::reader::{Reader, Taken};
use crate::http::h1::{Fault, head};
use crate::http::headers::strip_answer;
use crate::http::quantum::Quantum;
use crate::upstream::socket::ClientSocket;

/// Bytes per read while a head is awaited. On the stack, so that an idle connection keeps no buffer.
const HEAD_READ: usize = 8 << 10;
/// Bytes per read of a body.
const BODY_READ: usize = 32 << 10;
/// The maximum buffered of requests sent ahead of an answer.
const MAX_PIPELINED: usize = 64 << 10;
/// Slack above the configured limits, so that the pipeline answers a request slightly above them, with its route's
/// label.
const SLACK: usize = 64 << 10;
/// A method, a version and two spaces.
const FIRST_LINE: usize = 64;

/// A client's connection.
pub(crate) struct Line<S>(Mutex<Wire<S>>);

struct Wire<S> {
    socket: S,
    input: BytesMut,
    /// Bytes of `input` already scanned.
    scanned: usize,
    reader: Reader,
    quantum: Quantum,
    /// The client waits for a 100.
    expects: bool,
    /// The body cannot be read further.
    broken: bool,
    /// The client sends nothing more.
    half_closed: bool,
    output: Output,
}

impl<S> Line<S> {
    pub(crate) fn new(socket: S) -> Self {
        Self(Mutex::new(Wire {
            socket,
            input: BytesMut::new(),
            scanned: 0,
            reader: Reader::done(),
            quantum: Quantum::new(),
            expects: false,
            broken: false,
            half_closed: false,
            output: Output::default(),
        }))
    }

    /// Whether the request's body was read to its end.
    pub(crate) fn is_read(&self) -> bool {
        self.wire().reader.is_done()
    }

    /// Starts the answer. `fill` is told whether, as far as is known, another request may follow. A client that still
    /// waits for a 100 gets none after this.
    pub(crate) fn put_answer<T>(&self, fill: impl FnOnce(&mut Output, bool) -> T) -> T {
        let wire = &mut *self.wire();
        let unasked = std::mem::take(&mut wire.expects);
        // A client that has stopped sending waits for the answers to what it has sent.
        let may_follow = !wire.half_closed || !wire.input.is_empty();
        let can_go_on = !unasked && !wire.broken && may_follow;
        fill(&mut wire.output, can_go_on)
    }

    pub(crate) fn put<T>(&self, fill: impl FnOnce(&mut Output) -> T) -> T {
        fill(&mut self.wire().output)
    }

    pub(crate) fn left(&self) -> usize {
        self.wire().output.left()
    }

    fn wire(&self) -> MutexGuard<'_, Wire<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: ClientSocket> Line<S> {
    /// Resolves when the client has gone while its answer is awaited. A client that only stops sending still listens.
    pub(crate) fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut wire = self.wire();
        if wire.output.left() > 0 && matches!(wire.poll_send(context), Poll::Ready(Err(_))) {
            return Poll::Ready(());
        }
        // While a body is arriving, its consumer reads from the socket.
        while wire.reader.is_done() && !wire.half_closed && wire.input.len() < MAX_PIPELINED {
            match ready!(wire.poll_read(context)) {
                Ok(0) => wire.half_closed = true,
                Ok(_) => {}
                Err(_) => return Poll::Ready(()),
            }
        }
        if wire.half_closed { wire.socket.poll_left(context) } else { Poll::Pending }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Line<S> {
    /// Reads the next request's head, after which its body can be read. `Ok(None)`: the client left between requests;
    /// `Err(None)`: it left within one. Sets `has_input` if part of the head has arrived.
    pub(crate) fn poll_head(
        &self,
        context: &mut Context<'_>,
        limits: &Limits,
        has_input: &mut bool,
    ) -> Poll<Result<Option<RequestHead>, Option<Fault>>> {
        let mut wire = self.wire();
        loop {
            if let Some(head) = wire.next_head(limits).map_err(Some)? {
                wire.reader = Reader::of(head.length);
                wire.expects = head.expects && !wire.reader.is_done();
                return Poll::Ready(Ok(Some(head)));
            }
            *has_input = !wire.input.is_empty();
            let read = if wire.half_closed { Ok(0) } else { ready!(wire.poll_read(context)) };
            match read {
                Ok(0) if wire.input.is_empty() => return Poll::Ready(Ok(None)),
                Ok(0) | Err(_) => return Poll::Ready(Err(None)),
                Ok(_) => {}
            }
        }
    }

    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wire = &mut *self.wire();
        wire.output.poll_room(&mut wire.socket, context)
    }

    pub(crate) fn poll_send(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire().poll_send(context)
    }

    /// Sends everything and shuts the socket down.
    pub(crate) fn poll_shutdown(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wire = &mut *self.wire();
        ready!(wire.poll_send(context))?;
        Pin::new(&mut wire.socket).poll_shutdown(context)
    }

    /// Reads the body to its end; `false` if it is longer than `left` or broke off.
    pub(crate) fn poll_discard(&self, context: &mut Context<'_>, left: &mut usize) -> Poll<bool> {
        let mut wire = self.wire();
        loop {
            let length = match ready!(wire.poll_frame(context)) {
                None => return Poll::Ready(true),
                Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
                Some(Err(_)) => return Poll::Ready(false),
            };
            match left.checked_sub(length) {
                Some(rest) => *left = rest,
                None => return Poll::Ready(false),
            }
        }
    }

    /// Reads and drops input until the client leaves or `left` bytes have arrived.
    pub(crate) fn poll_drain(&self, context: &mut Context<'_>, left: &mut usize) -> Poll<()> {
        let mut wire = self.wire();
        loop {
            wire.input.clear();
            match ready!(wire.poll_read(context)) {
                Ok(0) | Err(_) => return Poll::Ready(()),
                Ok(length) => match left.checked_sub(length) {
                    Some(rest) => *left = rest,
                    None => return Poll::Ready(()),
                },
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    fn next_head(&mut self, limits: &Limits) -> Result<Option<RequestHead>, Fault> {
        let end = head::end(&self.input, self.scanned)?;
        let most = limits.header_bytes.saturating_add(limits.uri).saturating_add(SLACK);
        let Some(end) = end.filter(|end| *end <= most) else {
            self.scanned = self.input.len();
            let first_line = limits.uri.saturating_add(SLACK).saturating_add(FIRST_LINE);
            // Scanned once when too long, not again with every byte that arrives.
            let longer = self.input.get(..=first_line);
            if longer.is_some_and(|line| memchr::memchr(b'\n', line).is_none()) {
                return Err(Fault::UriTooLong);
            }
            return if self.input.len() > most { Err(Fault::HeadTooLarge) } else { Ok(None) };
        };
        self.scanned = 0;
        let whole = end == self.input.len();
        let raw = if whole { std::mem::take(&mut self.input) } else { self.input.split_to(end) };
        head::request(&raw.freeze()).map(Some)
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut space = [const { MaybeUninit::uninit() }; HEAD_READ];
        let mut buffer = ReadBuf::uninit(&mut space);
        ready!(Pin::new(&mut self.socket).poll_read(context, &mut buffer))?;
        self.input.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ClientFault>>> {
        if self.broken {
            return Poll::Ready(Some(Err(ClientFault::Broken)));
        }
        ready!(self.quantum.poll_left(context));
        loop {
            match self.reader.next(&mut self.input) {
                Ok(Taken::Frame(frame)) => {
                    self.quantum.spend(frame.data_ref().map_or(0, Bytes::len));
                    return Poll::Ready(Some(Ok(frame)));
                }
                Ok(Taken::End) => return Poll::Ready(None),
                Ok(Taken::NeedMore) => {}
                Err(_) => {
                    self.broken = true;
                    return Poll::Ready(Some(Err(ClientFault::Broken)));
                }
            }
            if std::mem::take(&mut self.expects) {
                self.output.put_status_line(StatusCode::CONTINUE);
                self.output.put(b"\r\n");
            }
            // A write error also shows when reading.
            let _sent = self.poll_send(context);
            self.input.reserve(self.wanted());
            match ready!(poll_read_buf(Pin::new(&mut self.socket), context, &mut self.input)) {
                Ok(0) | Err(_) => self.broken = true,
                Ok(_) => {}
            }
            if self.broken {
                return Poll::Ready(Some(Err(ClientFault::Broken)));
            }
        }
    }

    /// How much to read at once: not past the body's end, if its length is known.
    fn wanted(&self) -> usize {
        let left = self.reader.size().map_or(BODY_READ, |left| usize::try_from(left).unwrap_or(BODY_READ));
        left.clamp(1, BODY_READ)
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.output.poll_send(&mut self.socket, context)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Client for Line<S> {
    fn poll_frame(&self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, ClientFault>>> {
        self.wire().poll_frame(context)
    }

    fn is_end(&self) -> bool {
        self.is_read()
    }

    fn size_hint(&self) -> SizeHint {
        self.wire().reader.size_hint()
    }

    fn inform(&self, status: StatusCode, headers: &HeaderMap) {
        let mut headers = headers.clone();
        strip_answer(&mut headers);
        // The gateway sends its own 100, when the body is wanted.
        if status == StatusCode::CONTINUE {
            return;
        }
        self.put(|output| {
            output.put_status_line(status);
            output.put_headers(&headers);
            output.put(b"\r\n");
        });
    }

    fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        // The task that watches the connection notices a client that has gone.
        Self::poll_room(self, context).map(|_| ())
    }
}

/// The client's end of a tunnel.
pub(crate) struct Through<S>(Arc<Line<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> Through<S> {
    /// Returns the bare connection, and the input already read.
    pub(crate) fn of(line: &Arc<Line<S>>) -> (Self, BytesMut) {
        let early = std::mem::take(&mut line.wire().input);
        (Self(Arc::clone(line)), early)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Through<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.wire().socket).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Through<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wire = &mut *self.0.wire();
        // Send the answer's head first.
        ready!(wire.poll_send(context))?;
        Pin::new(&mut wire.socket).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wire = &mut *self.0.wire();
        ready!(wire.poll_send(context))?;
        Pin::new(&mut wire.socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let wire = &mut *self.0.wire();
        ready!(wire.poll_send(context))?;
        Pin::new(&mut wire.socket).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;
    use crate::http::h1::framing::Length;

    #[tokio::test]
    async fn a_client_that_reads_nothing_has_no_room_after_so_much() {
        const PIPE: usize = 1 << 10;
        let (socket, _client) = tokio::io::duplex(PIPE);
        let line = Line::new(socket);
        let context = &mut Context::from_waker(Waker::noop());
        let hints = HeaderMap::from_iter([(
            http::header::LINK,
            http::HeaderValue::from_maybe_shared(Bytes::from(vec![b'x'; 8 << 10])).expect("a value"),
        )]);
        for room in [true, true, false] {
            assert_eq!(Client::poll_room(&line, context).is_ready(), room);
            line.inform(StatusCode::EARLY_HINTS, &hints);
        }
    }

    /// Polls the body to its end; returns how many frames came before each pause.
    async fn frames_between_pauses(chunk: &[u8], count: usize) -> Vec<usize> {
        let body = chunk.repeat(count);
        let (socket, mut client) = tokio::io::duplex(body.len() + (1 << 10));
        let whole = [body.as_slice(), b"0\r\n\r\n"].concat();
        tokio::io::AsyncWriteExt::write_all(&mut client, &whole).await.expect("is taken");
        let line = Line::new(socket);
        line.wire().reader = Reader::of(Length::Chunked);
        let context = &mut Context::from_waker(Waker::noop());
        let mut frames = vec![0];
        loop {
            match Client::poll_frame(&line, context) {
                Poll::Ready(Some(frame)) => {
                    frame.expect("a frame");
                    *frames.last_mut().expect("one") += 1;
                }
                Poll::Ready(None) => return frames,
                Poll::Pending => frames.push(0),
            }
        }
    }

    #[tokio::test]
    async fn a_body_of_many_small_chunks_leaves_others_their_turn() {
        let frames = frames_between_pauses(b"1\r\nx\r\n", 2_000).await;
        assert_eq!(frames.iter().sum::<usize>(), 2_000, "every chunk comes");
        assert!(frames.iter().all(|frames| *frames <= 512), "{frames:?}");
        let control = frames_between_pauses(b"1\r\nx\r\n", 100).await;
        assert_eq!(control, [100], "a few chunks come at once");
    }
}
