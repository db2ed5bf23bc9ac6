//! [`Blocks`]: tracks the client's header blocks as they are read, for what the `h2` crate drops silently and for what
//! makes a request malformed: the fragment of a `:path`, pseudo-headers in trailers (RFC 9113, 8.1), and malformed
//! fields (8.1.1), for which `h2` would end the connection, or which it would overlook in a block that is split within
//! a literal. [`Marks`] report the affected streams. Only blocks of the last kind are rewritten (`mend`). A block is
//! passed on once it is complete: nearly all arrive so, and are not copied.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::http::h2::fields::Fields;
use crate::http::h2::mend::mend;

/// The client's connection preface (RFC 9113, 3.4).
const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
const PRIORITY: u8 = 0x20;
const PRIORITY_BYTES: usize = 5;
/// The maximum size of a frame; `h2` ends the connection for more.
pub(crate) const MAX_FRAME_BYTES: usize = 16 << 10;
/// Marks waiting for their streams. `h2` hands streams over promptly, so an honest client has none.
const MAX_MARKS: usize = 1_024;

/// The streams whose requests are malformed; shared by the socket and the code that accepts the streams and reads their
/// bodies.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    any: AtomicBool,
    /// The number of malformed messages.
    malformed: AtomicUsize,
    streams: Mutex<Marked>,
}

/// The defect of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Its target has a fragment.
    Fragment,
    /// A field is malformed, and has been rewritten.
    Malformed,
}

#[derive(Debug, Default)]
struct Marked {
    streams: Vec<(u32, Mark)>,
    /// Streams with malformed trailers. An entry stays if the stream's body is never read to its end.
    trailers: Vec<u32>,
    /// The header blocks cannot be tracked any more; every request counts as malformed.
    is_lost: bool,
}

impl Marks {
    /// Returns the defect of this stream's request. Call it in the order in which streams were opened.
    pub(crate) fn take(&self, stream: u32) -> Option<Mark> {
        if self.any.load(Ordering::Acquire) { self.take_marked(stream) } else { None }
    }

    #[cold]
    fn take_marked(&self, stream: u32) -> Option<Mark> {
        let mut marked = self.lock();
        let of_stream = marked.streams.iter().find(|(other, _)| *other == stream).map(|(_, mark)| *mark);
        let found = of_stream.or_else(|| marked.is_lost.then_some(Mark::Malformed));
        marked.streams.retain(|(other, _)| *other > stream);
        self.any.store(marked.is_any(), Ordering::Release);
        found
    }

    /// Whether this stream's trailers, which have arrived, are malformed.
    #[cold]
    pub(crate) fn take_trailers(&self, stream: u32) -> bool {
        let mut marked = self.lock();
        let found = marked.is_lost || marked.trailers.contains(&stream);
        marked.trailers.retain(|other| *other != stream);
        self.any.store(marked.is_any(), Ordering::Release);
        found
    }

    /// The number of malformed messages on the connection.
    pub(crate) fn malformed(&self) -> usize {
        self.malformed.load(Ordering::Relaxed)
    }

    /// Counts another malformed message.
    #[cold]
    pub(crate) fn count(&self) {
        self.malformed.fetch_add(1, Ordering::Relaxed);
    }

    /// Marks a stream's request, or its trailers if `head` is `None`.
    #[cold]
    fn mark(&self, stream: u32, head: Option<Mark>) {
        let mut marked = self.lock();
        marked.is_lost |= marked.streams.len() + marked.trailers.len() >= MAX_MARKS;
        if !marked.is_lost {
            match head {
                Some(mark) => marked.streams.push((stream, mark)),
                None => marked.trailers.push(stream),
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

/// A client's socket with its header blocks tracked.
#[derive(Debug)]
pub(crate) struct Blocks<S> {
    socket: S,
    frames: Frames,
    /// A block that has not arrived in full, from the first byte of its first frame's payload on.
    held: BytesMut,
    /// How much of `held` can be passed on.
    whole: usize,
}

impl<S> Blocks<S> {
    /// `max_parts`: the maximum frames per block; `h2` ends the connection for more.
    pub(crate) fn new(socket: S, max_parts: usize) -> (Self, Arc<Marks>) {
        let marks = Arc::new(Marks::default());
        let frames = Frames::new(Arc::clone(&marks), max_parts);
        (Self { socket, frames, held: BytesMut::new(), whole: 0 }, marks)
    }

    /// Passes on the complete part of the held bytes; `false` if there is none.
    fn pass_on(&mut self, buffer: &mut ReadBuf<'_>) -> bool {
        let length = self.whole.min(buffer.remaining());
        buffer.put_slice(self.held.get(..length).unwrap_or_default());
        self.held.advance(length);
        self.whole -= length;
        if self.held.is_empty() {
            self.held = BytesMut::new();
        }
        length > 0
    }

    /// Appends bytes that arrived after the held ones.
    #[cold]
    fn hold(&mut self, came: &[u8]) {
        let from = self.held.len();
        self.held.extend_from_slice(came);
        self.whole = self.frames.read(&mut self.held, from);
    }
}

/// The position in the client's frames. Offsets refer to the bytes of one `read`.
#[derive(Debug)]
struct Frames {
    preface_left: usize,
    head: [u8; HEAD_BYTES],
    head_filled: usize,
    payload_left: usize,
    kind: u8,
    flags: u8,
    stream: u32,
    /// The highest stream opened so far.
    opened: u32,
    /// The header block belongs to trailers.
    is_trailer: bool,
    /// Where the current payload starts.
    payload: usize,
    /// Where the current header block starts.
    block: Option<usize>,
    /// Its parts in complete frames; empty while it is in its first frame.
    parts: Vec<Range<usize>>,
    max_parts: usize,
    fields: Fields,
    marks: Arc<Marks>,
    is_lost: bool,
}

impl Frames {
    fn new(marks: Arc<Marks>, max_parts: usize) -> Self {
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
            payload: 0,
            block: None,
            parts: Vec::new(),
            max_parts,
            fields: Fields::default(),
            marks,
            is_lost: false,
        }
    }

    /// Scans the bytes from this offset. Returns how many of them can be passed on: the rest is an incomplete block,
    /// and must stand at the beginning next time.
    fn read(&mut self, bytes: &mut [u8], mut from: usize) -> usize {
        let skipped = (bytes.len() - from).min(self.preface_left);
        self.preface_left -= skipped;
        from += skipped;
        while from < bytes.len() && !self.is_lost {
            from = if self.payload_left > 0 {
                self.pass_payload(bytes, from)
            } else {
                self.pass_head(bytes, from)
            };
        }
        match self.block {
            Some(block) => self.begin_at(block),
            None => bytes.len(),
        }
    }

    /// Rebases the offsets to the block's start.
    #[cold]
    fn begin_at(&mut self, block: usize) -> usize {
        self.block = Some(0);
        self.payload = self.payload.saturating_sub(block);
        for part in &mut self.parts {
            *part = part.start - block..part.end - block;
        }
        block
    }

    /// Consumes a frame's head; returns where the bytes continue.
    fn pass_head(&mut self, bytes: &mut [u8], from: usize) -> usize {
        let rest = bytes.get(from..).unwrap_or_default();
        // A head usually arrives at once, and is not copied.
        if let (0, Some(head)) = (self.head_filled, rest.first_chunk()) {
            self.whole_head(*head, bytes, from + HEAD_BYTES);
            return from + HEAD_BYTES;
        }
        let missing = self.head.iter_mut().skip(self.head_filled);
        let filled = missing.zip(rest).map(|(slot, byte)| *slot = *byte).count();
        self.head_filled += filled;
        if self.head_filled == HEAD_BYTES {
            self.head_filled = 0;
            self.whole_head(self.head, bytes, from + filled);
        }
        from + filled
    }

    fn whole_head(&mut self, head: [u8; HEAD_BYTES], bytes: &mut [u8], payload: usize) {
        let [high, middle, low, kind, flags, stream @ ..] = head;
        self.payload_left = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        (self.kind, self.flags, self.payload) = (kind, flags, payload);
        // The highest bit is reserved.
        let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
        // CONTINUATION frames belong to an open block, and nothing else may come within one.
        let goes_on = kind == CONTINUATION && stream == self.stream;
        if self.block.is_some() != (kind == CONTINUATION) || self.block.is_some() && !goes_on {
            return self.lose();
        }
        if self.is_of_block() && self.payload_left > MAX_FRAME_BYTES {
            return self.lose();
        }
        if kind == HEADERS {
            self.stream = stream;
            self.is_trailer = self.stream <= self.opened;
            self.opened = self.opened.max(self.stream);
            self.block = Some(payload);
        }
        if self.payload_left == 0 && self.is_of_block() {
            self.frame(bytes, payload);
        }
    }

    fn pass_payload(&mut self, bytes: &mut [u8], from: usize) -> usize {
        let now = (bytes.len() - from).min(self.payload_left);
        self.payload_left -= now;
        if self.payload_left == 0 && self.is_of_block() {
            self.frame(bytes, from + now);
        }
        from + now
    }

    const fn is_of_block(&self) -> bool {
        matches!(self.kind, HEADERS | CONTINUATION)
    }

    /// Ends a frame of a header block.
    fn frame(&mut self, bytes: &mut [u8], end: usize) {
        let payload = self.payload..end;
        let part = bytes.get(payload).and_then(|bytes| self.part(bytes));
        let Some((start, length)) = part else { return self.lose() };
        let part = self.payload + start..self.payload + start + length;
        let is_whole = self.flags & END_HEADERS != 0;
        if is_whole && self.parts.is_empty() {
            match bytes.get_mut(part) {
                Some(block) => self.whole(block),
                None => self.lose(),
            }
        } else {
            self.parts.push(part);
            if self.parts.len() > self.max_parts {
                return self.lose();
            }
            if is_whole {
                self.join(bytes);
            }
        }
        if is_whole {
            self.block = None;
            self.parts.clear();
        }
    }

    /// The part of a frame's payload that belongs to its header block, as start and length; `None` if it is malformed.
    fn part(&self, payload: &[u8]) -> Option<(usize, usize)> {
        let (mut start, mut padding) = (0, 0);
        if self.kind == HEADERS && self.flags & PADDED != 0 {
            (start, padding) = (1, usize::from(*payload.first()?));
        }
        if self.kind == HEADERS && self.flags & PRIORITY != 0 {
            start += PRIORITY_BYTES;
        }
        Some((start, payload.len().checked_sub(start)?.checked_sub(padding)?))
    }

    /// Completes a block of several frames.
    #[cold]
    fn join(&mut self, bytes: &mut [u8]) {
        let parts = std::mem::take(&mut self.parts);
        let of = |part: &Range<usize>| part.clone();
        let mut block: Vec<u8> =
            parts.iter().flat_map(|part| bytes.get(of(part)).unwrap_or_default()).copied().collect();
        self.whole(&mut block);
        let mut read = block.iter();
        for part in &parts {
            let slots = bytes.get_mut(of(part)).unwrap_or_default();
            slots.iter_mut().zip(&mut read).for_each(|(slot, byte)| *slot = *byte);
        }
    }

    fn whole(&mut self, block: &mut [u8]) {
        let Some(seen) = self.fields.read(block) else { return self.lose() };
        if seen.malformed || if self.is_trailer { seen.has_pseudo() } else { seen.fragment } {
            let mark = if seen.malformed { Mark::Malformed } else { Mark::Fragment };
            self.marks.mark(self.stream, (!self.is_trailer).then_some(mark));
            if !seen.malformed {
                return;
            }
            self.marks.count();
            if mend(block, &self.fields.take_malformed()).is_none() {
                self.lose();
            }
        }
    }

    /// Gives up tracking. `h2` ends the connection for the same reason; until it does, no request passes.
    #[cold]
    fn lose(&mut self) {
        self.is_lost = true;
        self.block = None;
        self.marks.lose();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Blocks<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if this.whole > 0 && this.pass_on(buffer) {
                return Poll::Ready(Ok(()));
            }
            let before = buffer.filled().len();
            ready!(Pin::new(&mut this.socket).poll_read(context, buffer))?;
            let came = buffer.filled_mut().get_mut(before..).unwrap_or_default();
            if came.is_empty() {
                return Poll::Ready(Ok(()));
            }
            if !this.held.is_empty() {
                this.hold(came);
                buffer.set_filled(before);
                continue;
            }
            let passed = this.frames.read(came, 0);
            if let Some(held @ [_, ..]) = came.get(passed..) {
                this.held.extend_from_slice(held);
                buffer.set_filled(before + passed);
            }
            if passed > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Blocks<S> {
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
    /// `:path: /a#b` and `:path: /a`, not indexed.
    const WITH: &[u8] = b"\x04\x04/a#b";
    const WITHOUT: &[u8] = b"\x04\x02/a";

    const MAX_PARTS: usize = 11;

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).expect("a short frame");
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    }

    /// Reads bytes in pieces. Returns the marks, and what was passed on.
    fn read(bytes: &[u8], step: usize) -> (Arc<Marks>, Vec<u8>) {
        let marks = Arc::new(Marks::default());
        let mut frames = Frames::new(Arc::clone(&marks), MAX_PARTS);
        let (mut held, mut passed) = (Vec::new(), Vec::new());
        for piece in [PREFACE, bytes].concat().chunks(step) {
            let from = held.len();
            held.extend_from_slice(piece);
            let whole = frames.read(&mut held, from);
            passed.extend(held.drain(..whole));
        }
        (marks, passed)
    }

    fn marked(bytes: &[u8], step: usize) -> Vec<u32> {
        let (marks, passed) = read(bytes, step);
        assert_eq!(passed, [PREFACE, bytes].concat(), "nothing is changed, and nothing is kept");
        (1..20).filter(|stream| marks.take(*stream).is_some()).collect()
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
            let (marks, _) = read(&bytes, step);
            let marked = |stream| marks.take_trailers(stream);
            assert_eq!([1, 3, 5, 3].map(marked), [false, true, false, false], "{step}");
            assert!((1..7).all(|stream| marks.take(stream).is_none()), "{step}: no fragment");
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
    fn a_block_is_held_up_to_so_many_frames() {
        let block = |parts: usize| {
            let more = frame(CONTINUATION, 0, 1, b"").repeat(parts - 2);
            [frame(HEADERS, 0, 1, WITH), more, frame(CONTINUATION, END_HEADERS, 1, b"")].concat()
        };
        assert_eq!(marked(&block(MAX_PARTS), 3), [1], "at the limit");
        assert_eq!(
            marked(&block(MAX_PARTS + 1), 3).len(),
            19,
            "past it everything counts as marked, and `h2` judges"
        );
    }

    #[test]
    fn what_cannot_be_a_block_is_passed_on_for_h2_to_judge() {
        for bad in [
            [frame(HEADERS, 0, 1, WITHOUT), frame(6, 0, 0, &[0; 8])].concat(),
            [frame(HEADERS, 0, 1, WITHOUT), frame(HEADERS, END_HEADERS, 1, WITHOUT)].concat(),
            [frame(HEADERS, 0, 1, WITHOUT), frame(CONTINUATION, END_HEADERS, 3, WITHOUT)].concat(),
            frame(CONTINUATION, END_HEADERS, 1, WITHOUT),
            [&[0, 0x40, 1, HEADERS, END_HEADERS, 0, 0, 0, 1][..], &[0; 100]].concat(),
        ] {
            for step in [1, 7, 1_000] {
                assert_eq!(marked(&bad, step).len(), 19, "{bad:?}");
            }
        }
        let longest = [&[0, 0x40, 0, HEADERS, END_HEADERS, 0, 0, 0, 1][..], &[0x90; 16 << 10]].concat();
        assert_eq!(marked(&longest, 1_000), [0_u32; 0]);
    }

    #[test]
    fn marks_are_bounded_and_forgotten_as_streams_are_accepted() {
        let marks = Marks::default();
        let take = |stream| marks.take(stream).is_some();
        (1..=1_024).for_each(|stream| marks.mark(stream, Some(Mark::Fragment)));
        assert!(take(512) && !take(512) && take(513) && !take(2_000));
        (0..1_024).for_each(|stream| marks.mark(3_000 + stream, (stream % 2 > 0).then_some(Mark::Malformed)));
        assert!(!take(2_001), "at the limit");
        marks.mark(9_000, Some(Mark::Fragment));
        assert!(take(2_003), "past it everything counts as marked");
    }

    #[test]
    fn a_malformed_field_is_mended_however_its_block_is_cut() {
        let upper = b"\x82\x40\x03X-A\x03abc\x84";
        let bytes = |field: &[u8]| {
            [
                frame(HEADERS, END_HEADERS, 1, field),
                frame(HEADERS, 0, 3, &field[..4]),
                frame(CONTINUATION, 0, 3, &[]),
                frame(CONTINUATION, END_HEADERS, 3, &field[4..]),
                frame(HEADERS, END_HEADERS | PADDED, 5, &[&[2], field, &[0, 0]].concat()),
                frame(HEADERS, END_HEADERS, 7, WITHOUT),
                frame(HEADERS, END_HEADERS, 7, field),
            ]
            .concat()
        };
        // Three zeros are 15 bits; the rest is filled with well-formed fields.
        let mended = b"\x82\x40\x82\x00\x01\x82\x00\x01\x90\x90\x90";
        for step in [1, 2, 3, 5, 8, 13, 1_000] {
            let (marks, passed) = read(&bytes(upper), step);
            assert_eq!(passed, [PREFACE, &bytes(mended)].concat(), "{step}");
            let marks: Vec<Option<Mark>> = [1, 3, 5, 7].map(|stream| marks.take(stream)).into();
            assert_eq!(
                marks,
                [Some(Mark::Malformed), Some(Mark::Malformed), Some(Mark::Malformed), None],
                "{step}"
            );
        }
    }
}
