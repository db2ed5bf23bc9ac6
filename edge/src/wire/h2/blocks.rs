//! [`Fragments`]: finds what the crate `h2` drops without a word, and what makes a request malformed: the fragment of a
//! `:path`, and pseudo-headers in trailers (RFC 9113, 8.1). It follows the client's header blocks as they are read, and
//! changes nothing.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::fields::Fields;

/// The client's greeting before its first frame (RFC 9113, 3.4).
const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;
const PRIORITY_BYTES: usize = 5;
/// Bytes of one header block. `h2` ends the connection far below: it takes a dozen frames of 16 KiB.
const MAX_BLOCK_BYTES: usize = 512 << 10;
/// Marks that wait for their streams. `h2` hands streams over before it reads on for long, so an honest client has none.
const MAX_MARKS: usize = 1_024;

/// The streams whose requests are malformed, from the socket to those who accept the streams and read their bodies.
#[derive(Debug, Default)]
pub(super) struct Marks {
    any: AtomicBool,
    streams: Mutex<Marked>,
}

#[derive(Debug, Default)]
struct Marked {
    /// Their targets have a fragment.
    streams: Vec<u32>,
    /// Their trailers have a pseudo-header. Nobody may ever ask for one of these: its body need not be read.
    trailers: Vec<u32>,
    /// The header blocks cannot be followed any more; every request counts as marked.
    is_lost: bool,
}

impl Marks {
    /// Whether this stream's request has a fragment. Streams are asked for in the order in which they were opened.
    pub(super) fn take(&self, stream: u32) -> bool {
        self.any.load(Ordering::Acquire) && self.take_marked(stream)
    }

    #[cold]
    fn take_marked(&self, stream: u32) -> bool {
        let mut marked = self.lock();
        let found = marked.is_lost || marked.streams.contains(&stream);
        marked.streams.retain(|other| *other > stream);
        self.any.store(marked.is_any(), Ordering::Release);
        found
    }

    /// Whether this stream's trailers, which have come, have a pseudo-header.
    #[cold]
    pub(super) fn take_trailers(&self, stream: u32) -> bool {
        let mut marked = self.lock();
        let found = marked.is_lost || marked.trailers.contains(&stream);
        marked.trailers.retain(|other| *other != stream);
        self.any.store(marked.is_any(), Ordering::Release);
        found
    }

    #[cold]
    fn mark(&self, stream: u32, is_trailer: bool) {
        let mut marked = self.lock();
        marked.is_lost |= marked.streams.len() + marked.trailers.len() >= MAX_MARKS;
        if !marked.is_lost {
            if is_trailer {
                marked.trailers.push(stream);
            } else {
                marked.streams.push(stream);
            }
        }
        self.any.store(true, Ordering::Release);
    }

    #[cold]
    fn lose(&self) {
        self.lock().is_lost = true;
        self.any.store(true, Ordering::Release);
    }

    fn lock(&self) -> MutexGuard<'_, Marked> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Marked {
    const fn is_any(&self) -> bool {
        self.is_lost || !self.streams.is_empty() || !self.trailers.is_empty()
    }
}

/// A client's socket whose header blocks are followed.
#[derive(Debug)]
pub(super) struct Fragments<S> {
    socket: S,
    frames: Frames,
}

impl<S> Fragments<S> {
    pub(super) fn new(socket: S) -> (Self, Arc<Marks>) {
        let marks = Arc::new(Marks::default());
        (Self { socket, frames: Frames::new(Arc::clone(&marks)) }, marks)
    }
}

/// Where the client's frames are.
#[derive(Debug)]
struct Frames {
    preface_left: usize,
    head: [u8; HEAD_BYTES],
    head_filled: usize,
    payload_left: usize,
    kind: u8,
    flags: u8,
    stream: u32,
    /// The highest stream that was opened.
    opened: u32,
    /// The header block does not open its stream.
    is_trailer: bool,
    /// What has come of a header frame that did not come at once.
    payload: Vec<u8>,
    /// What has come of a header block of several frames.
    block: Vec<u8>,
    fields: Fields,
    marks: Arc<Marks>,
    is_lost: bool,
}

impl Frames {
    fn new(marks: Arc<Marks>) -> Self {
        Self {
            preface_left: PREFACE_BYTES,
            head: [0; HEAD_BYTES],
            head_filled: 0,
            payload_left: 0,
            kind: 0,
            flags: 0,
            stream: 0,
            opened: 0,
            is_trailer: false,
            payload: Vec::new(),
            block: Vec::new(),
            fields: Fields::default(),
            marks,
            is_lost: false,
        }
    }

    fn read(&mut self, mut bytes: &[u8]) {
        let skipped = bytes.len().min(self.preface_left);
        self.preface_left -= skipped;
        bytes = bytes.get(skipped..).unwrap_or_default();
        while !bytes.is_empty() && !self.is_lost {
            bytes = if self.payload_left > 0 { self.payload(bytes) } else { self.head(bytes) };
        }
    }

    fn head<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        // As a rule a head comes at once, and is not copied.
        if let (0, Some((head, rest))) = (self.head_filled, bytes.split_first_chunk()) {
            self.whole_head(*head);
            return rest;
        }
        let missing = self.head.iter_mut().skip(self.head_filled);
        let filled = missing.zip(bytes).map(|(place, byte)| *place = *byte).count();
        self.head_filled += filled;
        if self.head_filled == HEAD_BYTES {
            self.head_filled = 0;
            self.whole_head(self.head);
        }
        bytes.get(filled..).unwrap_or_default()
    }

    fn whole_head(&mut self, head: [u8; HEAD_BYTES]) {
        let [high, middle, low, kind, flags, stream @ ..] = head;
        self.payload_left = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        (self.kind, self.flags) = (kind, flags);
        if kind == HEADERS {
            // The highest bit is reserved.
            self.stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
            self.is_trailer = self.stream <= self.opened;
            self.opened = self.opened.max(self.stream);
        }
        if self.payload_left == 0 && self.is_of_block() {
            self.frame(&[]);
        }
    }

    fn payload<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let (now, rest) = bytes.split_at_checked(self.payload_left).unwrap_or((bytes, &[]));
        self.payload_left -= now.len();
        if !self.is_of_block() {
            return rest;
        }
        if self.payload_left == 0 && self.payload.is_empty() {
            self.frame(now);
        } else {
            self.payload.extend_from_slice(now);
            if self.payload_left == 0 {
                let whole = std::mem::take(&mut self.payload);
                self.frame(&whole);
            } else if self.payload.len() > MAX_BLOCK_BYTES {
                self.lose();
            }
        }
        rest
    }

    const fn is_of_block(&self) -> bool {
        matches!(self.kind, HEADERS | CONTINUATION)
    }

    /// A frame of a header block has come.
    fn frame(&mut self, payload: &[u8]) {
        let Some(part) = self.part(payload) else { return self.lose() };
        if self.flags & END_HEADERS == 0 {
            self.block.extend_from_slice(part);
            if self.block.len() > MAX_BLOCK_BYTES {
                self.lose();
            }
        } else if self.block.is_empty() {
            self.whole(part);
        } else {
            self.block.extend_from_slice(part);
            let block = std::mem::take(&mut self.block);
            self.whole(&block);
        }
    }

    /// What of a frame's payload belongs to its header block; `None` when it is malformed.
    fn part<'a>(&self, payload: &'a [u8]) -> Option<&'a [u8]> {
        let (mut part, mut padding) = (payload, 0);
        if self.kind == HEADERS && self.flags & PADDED != 0 {
            let (first, rest) = part.split_first()?;
            (part, padding) = (rest, usize::from(*first));
        }
        if self.kind == HEADERS && self.flags & PRIORITY != 0 {
            part = part.get(PRIORITY_BYTES..)?;
        }
        part.get(..part.len().checked_sub(padding)?)
    }

    fn whole(&mut self, block: &[u8]) {
        match self.fields.read(block) {
            Some(seen) if if self.is_trailer { seen.pseudo } else { seen.fragment } => {
                self.marks.mark(self.stream, self.is_trailer);
            }
            Some(_) => {}
            None => self.lose(),
        }
    }

    /// `h2` ends the connection for the same reason. Until it does, nothing passes.
    #[cold]
    fn lose(&mut self) {
        self.is_lost = true;
        self.marks.lose();
        (self.payload, self.block) = (Vec::new(), Vec::new());
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Fragments<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.socket).poll_read(context, buffer))?;
        this.frames.read(buffer.filled().get(before..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Fragments<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    /// `:path: /a#b` and `:path: /a`, neither indexed.
    const WITH: &[u8] = b"\x04\x04/a#b";
    const WITHOUT: &[u8] = b"\x04\x02/a";

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).expect("a short frame");
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    }

    fn marked(bytes: &[u8], step: usize) -> Vec<u32> {
        let marks = Arc::new(Marks::default());
        let mut frames = Frames::new(Arc::clone(&marks));
        for piece in [PREFACE, bytes].concat().chunks(step) {
            frames.read(piece);
        }
        (1..20).filter(|stream| marks.take(*stream)).collect()
    }

    #[test]
    fn a_stream_is_marked_however_its_block_is_cut_and_padded() {
        let padded = [&[3, 0, 0, 0, 0, 7], WITH, &[0, 0, 0]].concat();
        let bytes = [
            frame(4, 0, 0, &[0; 6]),
            frame(HEADERS, END_HEADERS, 1, WITHOUT),
            frame(HEADERS, END_HEADERS, 3, WITH),
            frame(0, 0, 3, WITH),
            frame(HEADERS, END_HEADERS | PADDED | PRIORITY, 5, &padded),
            frame(HEADERS, 0, 7, &WITH[..3]),
            frame(CONTINUATION, 0, 7, &[]),
            frame(CONTINUATION, END_HEADERS, 7, &WITH[3..]),
            frame(HEADERS, 0, 9, WITHOUT),
            frame(CONTINUATION, END_HEADERS, 9, &[]),
            frame(HEADERS, END_HEADERS, 11, WITH),
        ]
        .concat();
        for step in [1, 2, 3, 5, 8, 13, 1_000] {
            assert_eq!(marked(&bytes, step), [3, 5, 7, 11], "{step}");
        }
    }

    #[test]
    fn trailers_are_marked_for_their_pseudo_headers_and_heads_are_not() {
        let bytes = [
            frame(HEADERS, END_HEADERS, 1, WITHOUT),
            frame(HEADERS, END_HEADERS, 3, WITHOUT),
            frame(HEADERS, END_HEADERS, 1, b"\x00\x01a\x00"),
            frame(HEADERS, 0, 3, b"\x00\x01a\x00"),
            frame(CONTINUATION, END_HEADERS, 3, WITH),
            frame(HEADERS, END_HEADERS, 5, WITHOUT),
        ]
        .concat();
        for step in [1, 2, 3, 5, 8, 13, 1_000] {
            let marks = Arc::new(Marks::default());
            let mut frames = Frames::new(Arc::clone(&marks));
            [PREFACE, &bytes].concat().chunks(step).for_each(|piece| frames.read(piece));
            let marked = |stream| marks.take_trailers(stream);
            assert_eq!([1, 3, 5, 3].map(marked), [false, true, false, false], "{step}");
            assert!((1..7).all(|stream| !marks.take(stream)), "{step}: no fragment");
        }
    }

    #[test]
    fn blocks_that_cannot_be_followed_let_nothing_pass() {
        for bad in [
            frame(HEADERS, END_HEADERS, 1, &[0x80]),
            frame(HEADERS, END_HEADERS, 1, &[0x04, 0x05, b'/']),
            frame(HEADERS, END_HEADERS | PADDED, 1, &[9, 0]),
            frame(HEADERS, END_HEADERS | PRIORITY, 1, &[0, 0]),
        ] {
            let bytes = [bad, frame(HEADERS, END_HEADERS, 3, WITHOUT)].concat();
            assert_eq!(marked(&bytes, 7).len(), 19, "{bytes:?}");
        }
        assert_eq!(marked(&frame(HEADERS, END_HEADERS, 3, WITHOUT), 7), [0_u32; 0]);
    }

    #[test]
    fn a_block_is_followed_up_to_its_limit() {
        let marks = Arc::new(Marks::default());
        let mut frames = Frames::new(Arc::clone(&marks));
        frames.read(PREFACE);
        // A frame of 16 KiB that is no end; header fields of no name and no value.
        let part = [&[0, 0x40, 0, CONTINUATION, 0, 0, 0, 0, 1][..], &vec![0; 16 << 10]].concat();
        for _ in 0..MAX_BLOCK_BYTES / (16 << 10) {
            frames.read(&part);
        }
        assert!(!frames.is_lost, "at the limit");
        frames.read(&part);
        assert!(frames.is_lost && marks.take(1), "past it");
    }

    #[test]
    fn marks_are_bounded_and_forgotten_as_streams_are_accepted() {
        let marks = Marks::default();
        (1..=1_024).for_each(|stream| marks.mark(stream, false));
        assert!(marks.take(512) && !marks.take(512) && marks.take(513) && !marks.take(2_000));
        (0..1_024).for_each(|stream| marks.mark(3_000 + stream, stream % 2 == 0));
        assert!(!marks.take(2_001), "at the limit");
        marks.mark(9_000, false);
        assert!(marks.take(2_003), "past it everything counts as marked");
    }
}
