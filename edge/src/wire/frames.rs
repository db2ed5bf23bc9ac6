//! Follows what an HTTP/2 client sends, frame head by frame head, for the two things `h2` has no limit for: a header
//! block that does not come to its end, and a flood of control frames. It judges nothing else, and changes nothing.

/// The client's greeting before its first frame (RFC 9113, 3.4).
const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;

const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
/// On SETTINGS and PING; an answer to this side is no demand on it.
const ACK: u8 = 1;
/// On HEADERS and CONTINUATION.
const END_HEADERS: u8 = 4;

/// Where a client's frames are.
#[derive(Debug)]
pub(crate) struct Frames {
    head: [u8; HEAD_BYTES],
    head_filled: usize,
    payload_left: usize,
    part: Part,
    /// A header block has begun, and no frame with its end has.
    block_open: bool,
    controls: u32,
}

/// What the payload under way belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// The preface, or a piece of a header block.
    Head,
    Other,
}

/// What is unfinished after some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HalfHead {
    /// Nothing that begins or belongs to a request head.
    None,
    /// One that began in these bytes.
    Began,
    /// The same as before them.
    Still,
}

impl Frames {
    pub(crate) const fn new() -> Self {
        Self {
            head: [0; HEAD_BYTES],
            head_filled: 0,
            payload_left: PREFACE_BYTES,
            part: Part::Head,
            block_open: false,
            controls: 0,
        }
    }

    /// SETTINGS and PING frames since the last request began.
    pub(crate) const fn controls(&self) -> u32 {
        self.controls
    }

    /// Takes the next bytes, and tells whether they end within a request head.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) -> HalfHead {
        let mut half = if self.in_head() { HalfHead::Still } else { HalfHead::None };
        while !bytes.is_empty() {
            bytes = if self.payload_left > 0 { self.skip_payload(bytes) } else { self.fill_head(bytes) };
            half = match (self.in_head(), half) {
                (false, _) => HalfHead::None,
                (true, HalfHead::None) => HalfHead::Began,
                (true, half) => half,
            };
        }
        half
    }

    /// Within a frame's head (which may be that of HEADERS), the preface, or an open header block.
    fn in_head(&self) -> bool {
        let in_payload = self.payload_left > 0 && self.part == Part::Head;
        self.head_filled > 0 || self.block_open || in_payload
    }

    fn skip_payload<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let skipped = bytes.len().min(self.payload_left);
        self.payload_left -= skipped;
        bytes.get(skipped..).unwrap_or_default()
    }

    fn fill_head<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let missing = self.head.iter_mut().skip(self.head_filled);
        let filled = missing.zip(bytes).map(|(place, byte)| *place = *byte).count();
        self.head_filled += filled;
        if self.head_filled == HEAD_BYTES {
            self.head_filled = 0;
            self.begin_frame();
        }
        bytes.get(filled..).unwrap_or_default()
    }

    fn begin_frame(&mut self) {
        let [high, middle, low, kind, flags, ..] = self.head;
        self.payload_left = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.part = Part::Other;
        match kind {
            HEADERS | CONTINUATION => {
                self.part = Part::Head;
                self.block_open = flags & END_HEADERS == 0;
                self.controls = 0;
            }
            SETTINGS | PING if flags & ACK == 0 => self.controls = self.controls.saturating_add(1),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const DATA: u8 = 0;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).expect("a short frame");
        [&[0, 0, length, kind, flags, 0, 0, 0, 1], payload].concat()
    }

    fn greeted() -> Frames {
        let mut frames = Frames::new();
        assert_eq!(frames.read(PREFACE), HalfHead::None);
        frames
    }

    #[test]
    fn a_request_head_is_half_until_its_last_byte_however_it_is_cut() {
        let whole = [
            frame(HEADERS, 0, b"begin"),
            frame(CONTINUATION, 0, b"middle"),
            frame(CONTINUATION, END_HEADERS, b"end"),
        ]
        .concat();
        for cut in 1..whole.len() {
            let (first, rest) = whole.split_at(cut);
            let mut frames = greeted();
            assert_eq!(frames.read(first), HalfHead::Began, "{cut}");
            assert_eq!(frames.read(&[]), HalfHead::Still, "{cut}");
            assert_eq!(frames.read(rest), HalfHead::None, "{cut}");
        }
        let mut frames = greeted();
        let (last, before) = whole.split_last().expect("bytes");
        assert_eq!(frames.read(&before[..1]), HalfHead::Began);
        for byte in &before[1..] {
            assert_eq!(frames.read(&[*byte]), HalfHead::Still);
        }
        assert_eq!(frames.read(&[*last]), HalfHead::None);
    }

    #[test]
    fn the_preface_counts_as_a_head() {
        let mut frames = Frames::new();
        assert_eq!(frames.read(&PREFACE[..10]), HalfHead::Still);
        assert_eq!(frames.read(&PREFACE[10..]), HalfHead::None);
    }

    #[test]
    fn the_next_head_has_a_time_of_its_own_and_a_body_is_none() {
        let mut frames = greeted();
        let head = frame(HEADERS, END_HEADERS, b"abc");
        assert_eq!(frames.read(&[&head[..], &head[..5]].concat()), HalfHead::Began);
        assert_eq!(frames.read(&[&head[5..], &head[..5]].concat()), HalfHead::Began, "another one");
        assert_eq!(frames.read(&head[5..]), HalfHead::None);
        let data = frame(DATA, 0, b"a body");
        assert_eq!(frames.read(&data[..12]), HalfHead::None);
        assert_eq!(frames.read(&data[12..]), HalfHead::None);
    }

    #[test]
    fn demands_are_counted_until_a_request_comes() {
        let mut frames = greeted();
        for kind in [SETTINGS, PING] {
            frames.read(&frame(kind, 0, b"12345678"));
            frames.read(&frame(kind, ACK, b"12345678"));
        }
        assert_eq!(frames.controls(), 2);
        frames.read(&frame(HEADERS, END_HEADERS, b"abc"));
        assert_eq!(frames.controls(), 0);
    }
}
