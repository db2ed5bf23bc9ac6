//! Outgoing bytes: heads and small pieces of bodies are buffered, so that an answer is one write; a large piece is
//! written after the buffer without being copied.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri};
use tokio::io::AsyncWrite;

/// The maximum buffered: one TLS record.
const MAX_HELD: usize = 16 << 10;
/// Fits a head and a small body.
const FIRST_CAPACITY: usize = 2 << 10;
/// The last chunk's size line, after which trailers start.
const LAST_CHUNK: &[u8] = b"0\r\n";
const LINE_END: &[u8] = b"\r\n";

/// How a body's end is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    /// By the length in the head, or there is no body.
    Plain,
    Chunked,
}

/// The bytes still to be written.
#[derive(Debug, Default)]
pub(crate) struct Output {
    held: Vec<u8>,
    sent: usize,
    /// Follows the buffered bytes.
    piece: Bytes,
    /// A line end follows the piece.
    piece_is_chunk: bool,
    unflushed: bool,
}

impl Output {
    /// Writes the first line of a request.
    pub(crate) fn put_request_line(&mut self, method: &Method, uri: &Uri) {
        self.make_room();
        let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
        for part in [method.as_str(), " ", path, " HTTP/1.1\r\n"] {
            self.put(part.as_bytes());
        }
    }

    /// Writes the first line of an answer.
    pub(crate) fn put_status_line(&mut self, status: StatusCode) {
        self.make_room();
        for part in ["HTTP/1.1 ", status.as_str(), " ", status.canonical_reason().unwrap_or_default()] {
            self.put(part.as_bytes());
        }
        self.put(LINE_END);
    }

    pub(crate) fn put_headers(&mut self, headers: &HeaderMap) {
        for (name, value) in headers {
            self.put(name.as_str().as_bytes());
            self.put(b": ");
            self.put(value.as_bytes());
            self.put(LINE_END);
        }
    }

    pub(crate) fn put_length(&mut self, length: u64) {
        self.put(b"content-length: ");
        self.put_number(length, 10);
        self.put(LINE_END);
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
    }

    /// Writes a piece of a body; call it only while [`Self::is_full`] returns `false`.
    pub(crate) fn put_data(&mut self, data: Bytes, coding: Coding) {
        if data.is_empty() {
            return;
        }
        let chunked = coding == Coding::Chunked;
        if chunked {
            self.put_number(u64::try_from(data.len()).unwrap_or(u64::MAX), 16);
            self.put(LINE_END);
        }
        if self.held.len() + data.len() > MAX_HELD {
            self.piece = data;
            self.piece_is_chunk = chunked;
            return;
        }
        self.put(&data);
        if chunked {
            self.put(LINE_END);
        }
    }

    /// Writes the end of a body.
    pub(crate) fn put_end(&mut self, coding: Coding, trailers: Option<&HeaderMap>) {
        if coding == Coding::Chunked {
            self.put(LAST_CHUNK);
            if let Some(trailers) = trailers {
                self.put_headers(trailers);
            }
            self.put(LINE_END);
        }
    }

    /// Whether bytes must be sent before more may be put.
    pub(crate) const fn is_full(&self) -> bool {
        !self.piece.is_empty() || self.held.len() >= MAX_HELD
    }

    /// The number of bytes still to be sent.
    pub(crate) const fn left(&self) -> usize {
        self.held.len() - self.sent + self.piece.len()
    }

    /// Sends until there is room.
    pub(crate) fn poll_room<S>(&mut self, socket: &mut S, context: &mut Context<'_>) -> Poll<io::Result<()>>
    where
        S: AsyncWrite + Unpin,
    {
        while self.is_full() {
            ready!(self.poll_once(socket, context))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends everything.
    pub(crate) fn poll_send<S>(&mut self, socket: &mut S, context: &mut Context<'_>) -> Poll<io::Result<()>>
    where
        S: AsyncWrite + Unpin,
    {
        while self.left() > 0 {
            ready!(self.poll_once(socket, context))?;
        }
        if self.unflushed {
            ready!(Pin::new(socket).poll_flush(context))?;
            self.unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_once<S>(&mut self, socket: &mut S, context: &mut Context<'_>) -> Poll<io::Result<()>>
    where
        S: AsyncWrite + Unpin,
    {
        let held = self.held.get(self.sent..).unwrap_or_default();
        let socket = Pin::new(socket);
        let written = if self.piece.is_empty() {
            ready!(socket.poll_write(context, held))?
        } else if held.is_empty() {
            ready!(socket.poll_write(context, &self.piece))?
        } else {
            ready!(socket.poll_write_vectored(context, &[IoSlice::new(held), IoSlice::new(&self.piece)]))?
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.unflushed = true;
        self.forget(written);
        Poll::Ready(Ok(()))
    }

    fn forget(&mut self, written: usize) {
        let of_held = written.min(self.held.len() - self.sent);
        self.sent += of_held;
        let of_piece = written - of_held;
        if of_piece > 0 {
            bytes::Buf::advance(&mut self.piece, of_piece);
        }
        if self.sent == self.held.len() {
            self.sent = 0;
            give_back(std::mem::take(&mut self.held));
        }
        if self.piece.is_empty() && self.piece_is_chunk {
            self.piece_is_chunk = false;
            self.piece = Bytes::new();
            self.put(LINE_END);
        }
    }

    fn make_room(&mut self) {
        if self.held.capacity() == 0 {
            self.held = SPARE.take();
        }
        self.held.reserve(FIRST_CAPACITY);
    }

    fn put_number(&mut self, number: u64, base: u64) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [b'0'; 20];
        let mut left = number;
        let mut begin = text.len();
        for (position, slot) in text.iter_mut().enumerate().rev() {
            let digit = usize::try_from(left % base).unwrap_or_default();
            *slot = DIGITS.get(digit).copied().unwrap_or(b'0');
            begin = position;
            left /= base;
            if left == 0 {
                break;
            }
        }
        let digits = text.get(begin..).unwrap_or_default();
        self.held.extend_from_slice(digits);
    }
}

thread_local! {
    /// A buffer that the worker's connections share: output is usually sent at once, so one suffices for all of them,
    /// and it stays in the core's cache. An idle connection keeps none.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

fn give_back(mut held: Vec<u8>) {
    // A piece that was sent by itself used no buffer.
    if (1..=2 * MAX_HELD).contains(&held.capacity()) {
        held.clear();
        SPARE.set(held);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Takes `room` bytes per write, and records each.
    struct Socket {
        room: usize,
        writes: Vec<Vec<u8>>,
    }

    impl AsyncWrite for Socket {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken: Vec<u8> = bytes.iter().take(self.room).copied().collect();
            let length = taken.len();
            self.writes.push(taken);
            Poll::Ready(Ok(length))
        }

        fn poll_write_vectored(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let all: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
            self.poll_write(context, &all)
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn sent(room: usize, fill: impl Fn(&mut Output, &mut Socket)) -> Vec<Vec<u8>> {
        let (mut output, mut socket) = (Output::default(), Socket { room, writes: Vec::new() });
        fill(&mut output, &mut socket);
        let context = &mut Context::from_waker(Waker::noop());
        assert!(output.poll_send(&mut socket, context).is_ready());
        assert_eq!(output.left(), 0);
        socket.writes
    }

    #[test]
    fn a_sent_buffer_is_lent_to_the_next_empty_and_a_large_one_is_not_kept() {
        let first = |text: &'static [u8]| {
            sent(usize::MAX, |output, _| {
                output.put_status_line(StatusCode::OK);
                output.put(text);
            })
        };
        let lent = || SPARE.take().capacity();
        first(b"secret\r\n\r\n");
        let whole: Vec<u8> = first(b"\r\n").concat();
        assert_eq!(whole, b"HTTP/1.1 200 OK\r\n\r\n", "nothing of the one before");
        assert!(lent() >= FIRST_CAPACITY);
        give_back(Vec::with_capacity(2 * MAX_HELD));
        give_back(Vec::new());
        assert_eq!(lent(), 2 * MAX_HELD, "nothing in its place");
        give_back(Vec::with_capacity(2 * MAX_HELD + 1));
        assert_eq!(lent(), 0);
    }

    #[test]
    fn a_head_and_a_small_body_are_one_write() {
        let writes = sent(usize::MAX, |output, _| {
            output.put_status_line(StatusCode::OK);
            output.put_length(1_024);
            output.put(LINE_END);
            output.put_data(Bytes::from(vec![b'x'; 1_024]), Coding::Plain);
            output.put_end(Coding::Plain, None);
        });
        let [write] = writes.as_slice() else { panic!("{} writes", writes.len()) };
        assert!(write.starts_with(b"HTTP/1.1 200 OK\r\ncontent-length: 1024\r\n\r\nxxx"));
    }

    #[test]
    fn chunks_are_written_right_whatever_the_socket_takes() {
        let large = Bytes::from(vec![b'x'; 40_000]);
        for room in [1, 7, 1_000, usize::MAX] {
            let writes = sent(room, |output, socket| {
                let context = &mut Context::from_waker(Waker::noop());
                output.put_data(Bytes::from_static(b"0123456789abcdef0"), Coding::Chunked);
                output.put_data(large.clone(), Coding::Chunked);
                assert!(output.is_full());
                assert!(output.poll_room(socket, context).is_ready());
                output.put_data(Bytes::from_static(b"end"), Coding::Chunked);
                let trailers = HeaderMap::from_iter([(
                    http::HeaderName::from_static("x-sum"),
                    http::HeaderValue::from_static("1"),
                )]);
                output.put_end(Coding::Chunked, Some(&trailers));
            });
            let expected = [
                &b"11\r\n0123456789abcdef0\r\n9c40\r\n"[..],
                &large,
                b"\r\n3\r\nend\r\n0\r\nx-sum: 1\r\n\r\n",
            ];
            assert_eq!(writes.concat(), expected.concat(), "{room}");
        }
    }
}
