//! Tracks the frames of an HTTP/2 connection, head by head, for what `h2` does not check: a preface without SETTINGS,
//! an unfinished header block, and floods of frames without work. Checks nothing else, and changes nothing.

use h2::Reason;
use tokio::time::Instant;

use crate::http::h2::allowance::Allowance;

/// The client's connection preface (RFC 9113, 3.4).
const PREFACE_BYTES: usize = 24;
const HEAD_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
/// A flag of SETTINGS.
const ACK: u8 = 1;
/// One setting: its identifier and its value.
const SETTING_BYTES: usize = 6;
/// The identifier of the header list limit (RFC 9113, 6.5.2).
const MAX_HEADER_LIST_SIZE: u16 = 6;
/// A flag of DATA and HEADERS.
const END_STREAM: u8 = 1;
/// A flag of HEADERS and CONTINUATION.
const END_HEADERS: u8 = 4;

/// DATA frames shorter than this cost more memory than they carry; `h2` uses the same threshold.
const SMALL: usize = 256;
/// Small frames after which reading yields to the frames' streams and to other connections: input is queued frame by
/// frame, and a stream needs no more than this to stay busy.
const SMALL_AT_ONCE: u32 = 512;

/// The frames of a connection, in both directions.
#[derive(Debug)]
pub(crate) struct Frames {
    received: Heads,
    sent: Heads,
    part: Part,
    /// The client's first frame, which must be SETTINGS, has arrived.
    greeted: bool,
    /// A header block has started and not ended.
    block_open: bool,
    allowance: Allowance,
    /// Small frames since the last pause, except those of heads.
    small: u32,
}

/// The frames that an upstream sends: counts short frames of any type, and reads the setting that `h2` ignores.
#[derive(Debug)]
pub(crate) struct UpstreamFrames {
    heads: Heads,
    /// Short frames since the last pause.
    short: u32,
    /// The SETTINGS frame being read.
    settings: Option<Settings>,
}

impl UpstreamFrames {
    pub(crate) const fn new() -> Self {
        Self { heads: Heads::after(0), short: 0, settings: None }
    }

    /// Takes the next bytes, and returns whether it is time to yield, which resets the count. `settings` gets the
    /// header list limit of each SETTINGS frame, if it has one.
    pub(crate) fn receive(&mut self, mut bytes: &[u8], mut settings: impl FnMut(Option<u32>)) -> bool {
        while !bytes.is_empty() {
            if let Some(read) = &mut self.settings {
                read.receive(bytes.get(..self.heads.payload_left.min(bytes.len())).unwrap_or_default());
            }
            if let Some(head) = self.heads.next(&mut bytes) {
                self.short += u32::from(head.length < SMALL);
                self.settings = (head.kind == SETTINGS && head.flags & ACK == 0).then(Settings::default);
            }
            if self.heads.payload_left == 0
                && self.heads.filled == 0
                && let Some(read) = self.settings.take()
            {
                settings(read.max_header_list);
            }
        }
        let due = self.short >= SMALL_AT_ONCE;
        if due {
            self.short = 0;
        }
        due
    }
}

/// Parses the payload of a SETTINGS frame.
#[derive(Debug, Default)]
struct Settings {
    setting: [u8; SETTING_BYTES],
    filled: usize,
    max_header_list: Option<u32>,
}

impl Settings {
    fn receive(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(slot) = self.setting.get_mut(self.filled) {
                *slot = *byte;
            }
            self.filled += 1;
            if self.filled == SETTING_BYTES {
                self.filled = 0;
                let [high, low, value @ ..] = self.setting;
                if u16::from_be_bytes([high, low]) == MAX_HEADER_LIST_SIZE {
                    self.max_header_list = Some(u32::from_be_bytes(value));
                }
            }
        }
    }
}

/// The kind of the current payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Part of a header block.
    Head,
    Other,
}

/// Whether a request head is unfinished after some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HalfHead {
    /// No unfinished head.
    None,
    /// A head that started in these bytes.
    Began,
    /// The same head as before these bytes.
    Still,
}

impl Frames {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            received: Heads::after(PREFACE_BYTES),
            sent: Heads::after(0),
            part: Part::Other,
            greeted: false,
            block_open: false,
            allowance: Allowance::new(now),
            small: 0,
        }
    }

    /// Whether it is time to yield; asking resets the count.
    pub(crate) fn is_pause_due(&mut self) -> bool {
        let due = self.small >= SMALL_AT_ONCE;
        if due {
            self.small = 0;
        }
        due
    }

    /// Takes the client's next bytes, and returns whether they end within a request head. An error ends the connection.
    pub(crate) fn receive(&mut self, mut bytes: &[u8], now: Instant) -> Result<HalfHead, Reason> {
        let mut half = if self.in_head() { HalfHead::Still } else { HalfHead::None };
        while !bytes.is_empty() {
            let head = self.received.next(&mut bytes);
            if let Some(head) = head {
                self.begin(&head, now)?;
            }
            half = match (self.in_head(), half) {
                (false, _) => HalfHead::None,
                (true, HalfHead::None) => HalfHead::Began,
                (true, half) => half,
            };
        }
        Ok(half)
    }

    /// Takes the next bytes sent to the client.
    pub(crate) fn send(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if let Some(Head { kind: DATA | HEADERS, flags, .. }) = self.sent.next(&mut bytes) {
                self.allowance.answer_frame(flags & END_STREAM != 0);
            }
        }
    }

    /// Whether the position is within the preface, a frame's head (which may be that of HEADERS), or an open header
    /// block.
    const fn in_head(&self) -> bool {
        let in_payload = self.received.payload_left > 0 && matches!(self.part, Part::Head);
        !self.greeted || self.received.filled > 0 || self.block_open || in_payload
    }

    fn begin(&mut self, head: &Head, now: Instant) -> Result<(), Reason> {
        let is_greeting = !self.greeted;
        if is_greeting && (head.kind != SETTINGS || head.flags & ACK != 0) {
            return Err(Reason::PROTOCOL_ERROR);
        }
        self.greeted = true;
        self.part = Part::Other;
        if let HEADERS | CONTINUATION = head.kind {
            self.part = Part::Head;
            self.block_open = head.flags & END_HEADERS == 0;
        }
        if head.length < SMALL && self.part == Part::Other {
            self.small = self.small.saturating_add(1);
        }
        let in_bounds = match head.kind {
            // A request, a body, or the end of a body carries work.
            HEADERS | CONTINUATION if head.length > 0 => true,
            DATA if head.length > 0 || head.flags & END_STREAM != 0 => true,
            RST_STREAM => self.allowance.reset(now),
            WINDOW_UPDATE | PING => self.allowance.acknowledgement(now),
            // All others, of any type, do not: even the answer to a PING was not requested.
            _ => self.allowance.demand(now),
        };
        if in_bounds { Ok(()) } else { Err(Reason::ENHANCE_YOUR_CALM) }
    }
}

/// Finds the frame heads of one direction.
#[derive(Debug)]
struct Heads {
    bytes: [u8; HEAD_BYTES],
    filled: usize,
    payload_left: usize,
}

/// A frame's head.
struct Head {
    length: usize,
    kind: u8,
    flags: u8,
}

impl Heads {
    /// The first head follows after this many bytes.
    const fn after(bytes: usize) -> Self {
        Self { bytes: [0; HEAD_BYTES], filled: 0, payload_left: bytes }
    }

    /// Skips the rest of a payload, or reads part of the next head; returns the head when it is complete.
    fn next(&mut self, bytes: &mut &[u8]) -> Option<Head> {
        if self.payload_left > 0 {
            let skipped = bytes.len().min(self.payload_left);
            self.payload_left -= skipped;
            *bytes = bytes.get(skipped..).unwrap_or_default();
            return None;
        }
        // A head usually arrives at once, and is not copied.
        if let (0, Some((head, rest))) = (self.filled, bytes.split_first_chunk()) {
            *bytes = rest;
            return Some(self.head(head));
        }
        let missing = self.bytes.iter_mut().skip(self.filled);
        let filled = missing.zip(*bytes).map(|(slot, byte)| *slot = *byte).count();
        self.filled += filled;
        *bytes = bytes.get(filled..).unwrap_or_default();
        if self.filled < HEAD_BYTES {
            return None;
        }
        self.filled = 0;
        let head = self.bytes;
        Some(self.head(&head))
    }

    fn head(&mut self, head: &[u8; HEAD_BYTES]) -> Head {
        let [high, middle, low, kind, flags, ..] = *head;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.payload_left = length;
        Head { length, kind, flags }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::h2::allowance::{EARNED_BY_ANSWER_FRAME, MAX_AHEAD};

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).expect("a short frame");
        [&[0, 0, length, kind, flags, 0, 0, 0, 1], payload].concat()
    }

    #[test]
    fn short_frames_of_an_upstream_leave_others_their_turn_and_long_ones_do_not() {
        let short = frame(DATA, 0, b"x");
        let long = [&[0, 1, 0, DATA, 0, 0, 0, 0, 1][..], &[b'x'; 256]].concat();
        for (one, pauses) in [(&short, 2), (&frame(PING, 0, &[0; 8]), 2), (&long, 0)] {
            let mut frames = UpstreamFrames::new();
            let due = (0..=2 * SMALL_AT_ONCE).filter(|_| {
                // In two pieces, so that a head spans two reads.
                let (beginning, end) = one.split_at(5);
                let (first, second) = (frames.receive(beginning, |_| {}), frames.receive(end, |_| {}));
                first || second
            });
            assert_eq!(due.count(), pauses, "{:?}", one.get(..9));
        }
    }

    #[test]
    fn an_upstreams_largest_header_list_is_read_however_its_settings_are_cut() {
        let setting = |id: u8, value: u32| [&[0, id][..], &value.to_be_bytes()].concat();
        let bytes = [
            frame(SETTINGS, 0, &[setting(4, 65_535), setting(6, 8_192)].concat()),
            frame(SETTINGS, ACK, &[]),
            frame(DATA, 0, &setting(6, 1)),
            frame(SETTINGS, 0, &[]),
            frame(SETTINGS, 0, &[setting(6, 70_000), setting(6, 60_000), setting(5, 1)].concat()),
            frame(SETTINGS, 0, &setting(3, 6)),
        ]
        .concat();
        for step in [1, 2, 3, 7, 9, 15, 1_000] {
            let (mut frames, mut read) = (UpstreamFrames::new(), Vec::new());
            for piece in bytes.chunks(step) {
                frames.receive(piece, |limit| read.push(limit));
            }
            assert_eq!(read, [Some(8_192), None, Some(60_000), None], "{step}");
        }
    }

    /// A client, all of whose frames arrive at one moment.
    struct Client {
        frames: Frames,
        now: Instant,
    }

    impl Client {
        fn new() -> Self {
            let now = Instant::now();
            Self { frames: Frames::new(now), now }
        }

        fn greeted() -> Self {
            let mut client = Self::new();
            assert_eq!(client.read(&[PREFACE, &frame(SETTINGS, 0, &[])].concat()), HalfHead::None);
            client
        }

        fn read(&mut self, bytes: &[u8]) -> HalfHead {
            self.frames.receive(bytes, self.now).expect("nothing that ends the connection")
        }

        /// How many of a frame are accepted before one exceeds the limit.
        fn taken(&mut self, bytes: &[u8]) -> u32 {
            let taken = (0..MAX_AHEAD * 3)
                .find(|_| self.frames.receive(bytes, self.now) == Err(Reason::ENHANCE_YOUR_CALM))
                .unwrap_or(u32::MAX);
            // Only a test reads on after an error.
            self.frames.received.payload_left = 0;
            taken
        }
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
            let mut client = Client::greeted();
            assert_eq!(client.read(first), HalfHead::Began, "{cut}");
            assert_eq!(client.read(&[]), HalfHead::Still, "{cut}");
            assert_eq!(client.read(rest), HalfHead::None, "{cut}");
        }
        let mut client = Client::greeted();
        let (last, before) = whole.split_last().expect("bytes");
        assert_eq!(client.read(&before[..1]), HalfHead::Began);
        for byte in &before[1..] {
            assert_eq!(client.read(&[*byte]), HalfHead::Still);
        }
        assert_eq!(client.read(&[*last]), HalfHead::None);
    }

    #[test]
    fn the_greeting_counts_as_a_head() {
        let whole = [PREFACE, &frame(SETTINGS, 0, b"123456")].concat();
        for cut in 1..PREFACE.len() + HEAD_BYTES {
            let mut client = Client::new();
            assert_eq!(client.read(&whole[..cut]), HalfHead::Still, "{cut}");
            assert_eq!(client.read(&whole[cut..]), HalfHead::None, "{cut}");
        }
    }

    #[test]
    fn the_first_frame_is_settings_or_the_connection_ends() {
        for (kind, flags) in [(SETTINGS, ACK), (HEADERS, END_HEADERS), (PING, 0), (DATA, 0), (200, 0)] {
            let mut client = Client::new();
            client.read(PREFACE);
            let broken = client.frames.receive(&frame(kind, flags, b"123456"), client.now);
            assert_eq!(broken, Err(Reason::PROTOCOL_ERROR), "{kind} {flags}");
        }
    }

    #[test]
    fn the_next_head_has_a_time_of_its_own_and_a_body_is_none() {
        let mut client = Client::greeted();
        let head = frame(HEADERS, END_HEADERS, b"abc");
        assert_eq!(client.read(&[&head[..], &head[..5]].concat()), HalfHead::Began);
        assert_eq!(client.read(&[&head[5..], &head[..5]].concat()), HalfHead::Began, "another one");
        assert_eq!(client.read(&head[5..]), HalfHead::None);
        let data = frame(DATA, 0, b"a body");
        assert_eq!(client.read(&data[..12]), HalfHead::None);
        assert_eq!(client.read(&data[12..]), HalfHead::None);
    }

    #[test]
    fn frames_that_bring_no_work_are_counted_and_one_past_the_limit_ends_the_connection() {
        for (kind, flags, payload) in [
            (SETTINGS, 0, &b"123456"[..]),
            (PING, 0, b"12345678"),
            (PING, ACK, b"12345678"),
            (2, 0, b"12345"),
            (8, 0, b"1234"),
            (16, 0, b"1234u=1"),
            (200, 255, b""),
            (DATA, 0, b""),
            (HEADERS, END_HEADERS, b""),
            (CONTINUATION, END_HEADERS, b""),
        ] {
            let mut client = Client::greeted();
            // The preface used one.
            assert_eq!(client.taken(&frame(kind, flags, payload)), MAX_AHEAD - 1, "{kind} {flags}");
            let mut client = Client::greeted();
            assert_eq!(client.taken(&frame(RST_STREAM, 0, b"1234")), MAX_AHEAD, "of their own");
        }
    }

    #[test]
    fn requests_and_bodies_are_work_however_many_they_are() {
        for (kind, flags, payload) in [
            (HEADERS, END_HEADERS | END_STREAM, &b"1"[..]),
            (CONTINUATION, END_HEADERS, b"1"),
            (DATA, 0, b"1"),
            (DATA, END_STREAM, b""),
        ] {
            assert_eq!(Client::greeted().taken(&frame(kind, flags, payload)), u32::MAX, "{kind} {flags}");
        }
    }

    #[test]
    fn a_pause_is_due_after_so_many_small_frames() {
        let mut client = Client::greeted();
        let small = frame(DATA, 0, b"small");
        // The preface counts as one of them.
        client.read(&small.repeat(usize::try_from(SMALL_AT_ONCE - 2).expect("a count")));
        client.read(&[&[0, 1, 0, DATA, 0, 0, 0, 0, 1], &[0; SMALL][..]].concat());
        assert!(!client.frames.is_pause_due());
        client.read(&frame(WINDOW_UPDATE, 0, &[0; 4]));
        assert!(client.frames.is_pause_due());
        assert!(!client.frames.is_pause_due(), "once");
    }

    #[test]
    fn what_is_sent_gives_back_however_it_is_cut() {
        let answer = [
            frame(SETTINGS, 0, b"123456"),
            frame(HEADERS, END_HEADERS, b"head"),
            frame(DATA, 0, b"a piece"),
            frame(DATA, END_STREAM, b""),
            frame(PING, ACK, b"12345678"),
        ]
        .concat();
        for cut in 0..answer.len() {
            let mut client = Client::greeted();
            let ping = frame(PING, 0, b"12345678");
            assert_eq!(client.taken(&ping), MAX_AHEAD - 1);
            assert_eq!(client.taken(&frame(RST_STREAM, 0, b"1234")), MAX_AHEAD);
            client.frames.send(&answer[..cut]);
            client.frames.send(&answer[cut..]);
            assert_eq!(client.taken(&ping), 3 * EARNED_BY_ANSWER_FRAME, "{cut}");
            // One past the limit was counted.
            client.frames.send(&frame(DATA, END_STREAM, b""));
            assert_eq!(client.taken(&frame(RST_STREAM, 0, b"1234")), 1, "{cut}");
        }
    }
}
