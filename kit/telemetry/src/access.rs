//! The access log. Each worker formats log lines into its own buffer: handing a record to another thread costs more
//! than formatting it, half of that in cache misses between cores. Records are formatted in batches, because the
//! formatting code is no longer in a core's nearest cache after a request. A writer thread drains the buffers. When it
//! falls behind and a buffer is full, lines are dropped and counted; a request never waits for the log.

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use contract::Clock;
use prometheus::IntCounter;
use time::OffsetDateTime;

/// Bytes of waiting lines per worker: some seconds of a busy core.
const ROOM: usize = 4 << 20;
/// Buffer capacity kept for the next lines; anything above was a burst.
const KEPT: usize = 2 << 20;
/// Records formatted at a time.
const BATCH: usize = 128;
/// Interval between drains. Waking the writer for each line would cost the request a system call.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often the system clock is read, in case it was set; times in between are offsets from the last reading.
const SET_EVERY: Duration = Duration::from_secs(1);

/// Status logged for a request whose client went away, as in nginx; never sent.
pub const ABANDONED_STATUS: u16 = 499;
/// The reason logged with it.
pub const ABANDONED: &str = "abandoned";

/// The content of a log line; [`access_line`] implements it.
pub trait AccessRecord {
    /// Appends the members as JSON, each preceded by a comma. The request ended `at`.
    fn json(&self, at: Instant, line: &mut Line);
    /// Appends the same members as text, each preceded by a space.
    fn text(&self, at: Instant, line: &mut Line);
}

/// Implements [`AccessRecord`] from the record and the time at which the request ended: pairs of a name and its value,
/// written by a method of [`Line`]. The names are compile-time literals.
#[macro_export]
macro_rules! access_line {
    ($record:ty, |$this:ident, $at:pat_param| { $($name:literal: $kind:ident($value:expr)),+ $(,)? }) => {
        impl $crate::AccessRecord for $record {
            fn json(&self, $at: ::std::time::Instant, line: &mut $crate::Line) {
                let $this = self;
                $(
                    line.piece(concat!(",\"", $name, "\":"));
                    line.$kind($value);
                )+
            }

            fn text(&self, $at: ::std::time::Instant, line: &mut $crate::Line) {
                let $this = self;
                $(
                    line.piece(concat!(" ", $name, "="));
                    line.$kind($value);
                )+
            }
        }
    };
}

/// Log lines, the last of which is being written.
#[derive(Clone, Debug, Default)]
pub struct Line(Vec<u8>);

impl Line {
    /// Appends a literal verbatim.
    #[inline]
    pub fn piece(&mut self, piece: &'static str) {
        self.0.extend_from_slice(piece.as_bytes());
    }

    /// Appends text that needs no escaping, in quotes.
    pub fn word(&mut self, word: &str) {
        self.between_quotes(word.as_bytes());
    }

    /// Appends any text in quotes, escaped so that it can end neither the line nor the value.
    pub fn quoted(&mut self, text: &str) {
        // Folds over all bytes instead of stopping at the first match, so that the loop vectorises to sixteen bytes at
        // a time.
        if text.bytes().fold(false, |special, byte| special | is_special(byte)) {
            self.between_quotes(escaped(text).as_bytes());
        } else {
            self.between_quotes(text.as_bytes());
        }
    }

    /// Appends a number.
    pub fn number(&mut self, number: u64) {
        self.0.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Appends numbers in hexadecimal, sixteen digits each, as one quoted text.
    pub fn hex(&mut self, numbers: &[u64]) {
        self.0.push(b'"');
        for number in numbers {
            self.0.extend_from_slice(&digits((number >> 32) & 0xffff_ffff));
            self.0.extend_from_slice(&digits(number & 0xffff_ffff));
        }
        self.0.push(b'"');
    }

    fn between_quotes(&mut self, text: &[u8]) {
        self.0.push(b'"');
        self.0.extend_from_slice(text);
        self.0.push(b'"');
    }
}

/// The access log of a process, for records of one type.
#[derive(Debug)]
pub struct AccessLog<R> {
    rooms: Arc<Rooms<R>>,
    alive: Arc<()>,
    json: bool,
    dropped: IntCounter,
}

/// The buffers of all workers.
type Rooms<R> = Mutex<Vec<Arc<Mutex<Room<R>>>>>;

/// One worker's buffer: finished lines, followed by records not formatted yet.
#[derive(Debug)]
struct Room<R> {
    lines: Line,
    records: Vec<(Instant, Box<R>)>,
    moment: Moment,
}

/// One worker's handle to the log.
#[derive(Debug)]
pub struct Lines<R> {
    room: Arc<Mutex<Room<R>>>,
    /// The log runs as long as any handle exists.
    _alive: Arc<()>,
    json: bool,
    dropped: IntCounter,
}

impl<R: AccessRecord + Send + 'static> AccessLog<R> {
    /// Starts the writer thread. It ends when this and all [`Lines`] are dropped and everything is written, and then
    /// calls `ended`. `dropped` counts the lines that found no room.
    ///
    /// # Errors
    /// The thread could not be spawned.
    pub fn start(json: bool, dropped: IntCounter, ended: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let rooms = Arc::new(Rooms::default());
        let alive = Arc::new(());
        let (seen, used) = (Arc::clone(&rooms), Arc::downgrade(&alive));
        std::thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            write_all(&seen, &used, json, &mut io::stderr());
            ended();
        })?;
        Ok(Self { rooms, alive, json, dropped })
    }
}

impl<R> AccessLog<R> {
    /// Adds a buffer for one more worker.
    #[must_use]
    pub fn lines(&self) -> Lines<R> {
        let room = Arc::new(Mutex::new(Room::new()));
        lock(&self.rooms).push(Arc::clone(&room));
        let (alive, dropped) = (Arc::clone(&self.alive), self.dropped.clone());
        Lines { room, _alive: alive, json: self.json, dropped }
    }
}

impl<R: AccessRecord> Lines<R> {
    /// Logs a record, or drops it when the buffer is full.
    pub fn put(&self, at: Instant, record: Box<R>) {
        let mut room = lock(&self.room);
        if room.lines.0.len() >= ROOM {
            self.dropped.inc();
            return;
        }
        room.records.push((at, record));
        if room.records.len() >= BATCH {
            room.make_lines(self.json);
        }
    }
}

impl<R> Room<R> {
    fn new() -> Self {
        Self { lines: Line::default(), records: Vec::with_capacity(BATCH), moment: Moment::default() }
    }
}

impl<R: AccessRecord> Room<R> {
    /// Out of line: most calls of [`Lines::put`] do not get here.
    #[inline(never)]
    fn make_lines(&mut self, json: bool) {
        for (at, record) in self.records.drain(..) {
            self.moment.turn(at);
            if json {
                json_line(&mut self.lines, &self.moment, at, &*record);
            } else {
                text_line(&mut self.lines, &self.moment, at, &*record);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_all<R: AccessRecord>(rooms: &Rooms<R>, used: &Weak<()>, json: bool, to: &mut impl io::Write) {
    let (mut known, mut taken) = (Vec::new(), Room::new());
    loop {
        // When no handle is left, this drain is the last.
        let last = used.strong_count() == 0;
        known.clone_from(&lock(rooms));
        for room in &known {
            write_room(room, &mut taken, json, to);
        }
        if last {
            return;
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
}

/// Writes a worker's buffer. The worker waits only for the swap, which hands it the emptied buffer of the previous one.
fn write_room<R: AccessRecord>(
    room: &Mutex<Room<R>>,
    taken: &mut Room<R>,
    json: bool,
    to: &mut impl io::Write,
) {
    {
        let mut room = lock(room);
        std::mem::swap(&mut room.lines, &mut taken.lines);
        std::mem::swap(&mut room.records, &mut taken.records);
    }
    taken.make_lines(json);
    let lines = &mut taken.lines.0;
    if !lines.is_empty() {
        // A failed write must not stop anything, and there is nowhere to report it.
        drop(to.write_all(lines));
        lines.clear();
        lines.shrink_to(KEPT);
    }
}

/// Writes the same members as any other JSON log line.
fn json_line(line: &mut Line, moment: &Moment, at: Instant, record: &impl AccessRecord) {
    line.piece("{\"timestamp\":\"");
    moment.write(line);
    line.piece("\",\"level\":\"INFO\",\"message\":\"request\"");
    record.json(at, line);
    line.piece(",\"target\":\"access\"}\n");
}

fn text_line(line: &mut Line, moment: &Moment, at: Instant, record: &impl AccessRecord) {
    moment.write(line);
    line.piece("  INFO access: request");
    record.text(at, line);
    line.piece("\n");
}

/// The current time by the system clock; reuses the text of the second while it lasts.
#[derive(Debug, Default)]
struct Moment {
    clock: Clock,
    /// When the clock was read, and its reading.
    looked: Option<(Instant, Duration)>,
    second: u64,
    micros: u32,
    /// The text of the second, up to and including the point.
    text: String,
}

impl Moment {
    /// Moves to `at`, a moment in the recent past.
    fn turn(&mut self, at: Instant) {
        let (looked, said) = match self.looked {
            Some((looked, said)) if at.saturating_duration_since(looked) < SET_EVERY => (looked, said),
            _ => (Instant::now(), since_1970(self.clock.now())),
        };
        self.looked = Some((looked, said));
        let moment = match at.checked_duration_since(looked) {
            Some(since) => said + since,
            None => said.saturating_sub(looked - at),
        };
        self.micros = moment.subsec_micros();
        if self.second != moment.as_secs() || self.text.is_empty() {
            self.second = moment.as_secs();
            self.text = second_text(self.second);
        }
    }

    fn write(&self, line: &mut Line) {
        line.0.extend_from_slice(self.text.as_bytes());
        // The leading one of the seven digits is cut off, which keeps the zeros of the other six.
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(1_000_000 + self.micros).as_bytes();
        line.0.extend_from_slice(digits.get(1..).unwrap_or_default());
        line.0.push(b'Z');
    }
}

fn since_1970(at: OffsetDateTime) -> Duration {
    (at - OffsetDateTime::UNIX_EPOCH).try_into().unwrap_or_default()
}

/// The second in RFC 3339, including the trailing point.
fn second_text(unix: u64) -> String {
    let at = i64::try_from(unix).ok().and_then(|unix| OffsetDateTime::from_unix_timestamp(unix).ok());
    let at = at.unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (date, (hour, minute, second)) = (at.date(), at.time().as_hms());
    let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.")
}

/// Distance of the letters from the digits in ASCII, beyond ten.
const LETTERS: u64 = 0x27;

/// The eight hexadecimal digits of a number below 2^32, computed at once: spreads each four bits into a byte, then
/// converts all bytes to ASCII.
const fn digits(number: u64) -> [u8; 8] {
    let spread = (number | number << 16) & 0x0000_ffff_0000_ffff;
    let spread = (spread | spread << 8) & 0x00ff_00ff_00ff_00ff;
    let spread = (spread | spread << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let letters = ((spread + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    (spread + 0x3030_3030_3030_3030 + letters * LETTERS).to_be_bytes()
}

/// Whether a byte needs escaping, or may begin a character that does.
const fn is_special(byte: u8) -> bool {
    !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\')
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '"' | '\\' => escaped.extend(['\\', character]),
            control if control.is_control() => {
                put(&mut escaped, format_args!("\\u{:04x}", u32::from(control)));
            }
            other => escaped.push(other),
        }
    }
    escaped
}

#[expect(
    clippy::expect_used,
    reason = "writing to a string fails only when a Display does, and this is a number"
)]
fn put(text: &mut String, formatted: std::fmt::Arguments<'_>) {
    text.write_fmt(formatted).expect("a string takes all text");
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Record(&'static str);

    access_line!(Record, |record, _| {
        "reason": quoted(record.0),
        "word": word("say"),
        "status": number(200),
        "subject": hex(&[0x00af_0900_0000_0012, u64::MAX]),
    });

    fn log(json: bool, dropped: &IntCounter) -> AccessLog<Record> {
        AccessLog { rooms: Arc::default(), alive: Arc::default(), json, dropped: dropped.clone() }
    }

    fn dropped() -> IntCounter {
        IntCounter::new("dropped", "Lines dropped.").expect("a counter")
    }

    /// A buffer as the writer takes it.
    fn room() -> Room<Record> {
        let clock = Clock::standing_at(1_700_000_000);
        Room { moment: Moment { clock, ..Moment::default() }, ..Room::new() }
    }

    fn written(room: &Mutex<Room<Record>>, json: bool) -> String {
        let mut written = Vec::new();
        write_room(room, &mut self::room(), json, &mut written);
        String::from_utf8(written).expect("text")
    }

    #[test]
    fn a_line_is_what_it_says_and_nothing_in_it_breaks_out() {
        let lines = log(true, &dropped()).lines();
        let now = Instant::now();
        let reasons = [("plain", "plain"), ("a\"b\\c\nd\u{85}é", r#"a\"b\\c\u000ad\u0085é"#)];
        for (reason, told) in reasons {
            lines.put(now, Box::new(Record(reason)));
            let line = written(&lines.room, true);
            let (moment, rest) = line.split_once("\",").expect("a moment");
            assert!(moment.starts_with("{\"timestamp\":\"2023-11-14T22:13:"), "{moment}");
            let expected = format!(
                r#""level":"INFO","message":"request","reason":"{told}","word":"say","status":200,"subject":"00af090000000012ffffffffffffffff","target":"access"}}"#
            );
            assert_eq!(rest, expected + "\n");
        }
    }

    #[test]
    fn a_line_may_be_text() {
        let lines = log(false, &dropped()).lines();
        lines.put(Instant::now(), Box::new(Record("say \"no\"")));
        let line = written(&lines.room, false);
        let expected = concat!(
            "  INFO access: request reason=\"say \\\"no\\\"\" word=\"say\" status=200 ",
            "subject=\"00af090000000012ffffffffffffffff\"\n"
        );
        assert!(line.starts_with("2023-11-14T22:13:") && line.ends_with(expected), "{line}");
    }

    #[test]
    fn a_workers_lines_come_in_their_order_and_whoever_can_write_keeps_the_writer() {
        let log = log(true, &dropped());
        let [one, other] = [0; 2].map(|_| log.lines());
        let (rooms, used) = (Arc::clone(&log.rooms), Arc::downgrade(&log.alive));
        let many = |of: &str| -> Vec<&'static str> {
            (0..=BATCH * 2).map(|number| &*format!("{of}{number}").leak()).collect()
        };
        let (ones, others) = (many("one"), many("other"));
        let put = |lines: Lines<Record>, texts: &[&'static str]| {
            for text in texts {
                lines.put(Instant::now(), Box::new(Record(text)));
            }
        };
        let mut written = Vec::new();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_all(&rooms, &used, true, &mut written));
            put(one, &ones);
            // What is written last must be written too.
            drop(log);
            put(other, &others);
            writer.join().expect("it ends");
        });
        let text = String::from_utf8(written).expect("text");
        let reasons = |of: &str| -> Vec<&str> {
            let start = format!("\"reason\":\"{of}");
            let lines = text.lines().filter(|line| line.contains(&start));
            lines.filter_map(|line| line.split("\"reason\":\"").nth(1)?.split('"').next()).collect()
        };
        assert_eq!((reasons("one"), reasons("other")), (ones, others));
    }

    #[test]
    fn hexadecimal_digits_are_those_of_the_formatter() {
        for number in (0..=0xffff_u64).flat_map(|low| [low, low << 16, low << 8 | 0xf000_000a]) {
            let number = number & 0xffff_ffff;
            assert_eq!(digits(number), format!("{number:08x}").as_bytes());
        }
    }

    #[test]
    fn a_moment_goes_on_from_the_machines_clock_which_is_looked_at_again() {
        let mut moment = Moment { clock: Clock::standing_at(1_700_000_000), ..Moment::default() };
        moment.turn(Instant::now());
        let (looked, _) = moment.looked.expect("it was looked at");
        let mut at = |later: i64, set: u64| {
            moment.clock.advance(Duration::from_secs(set));
            let mut line = Line::default();
            let by = Duration::from_micros(later.unsigned_abs());
            let at = if later < 0 { looked.checked_sub(by) } else { looked.checked_add(by) };
            moment.turn(at.expect("a moment"));
            moment.write(&mut line);
            String::from_utf8(line.0).expect("text")
        };
        assert_eq!(at(0, 0), "2023-11-14T22:13:20.000000Z");
        assert_eq!(at(-1_001, 0), "2023-11-14T22:13:19.998999Z", "before it was looked at");
        assert_eq!(at(999_999, 3600), "2023-11-14T22:13:20.999999Z", "it is not looked at");
        assert!(at(1_000_000, 0).starts_with("2023-11-14T23:13:2"), "it was set");
    }

    #[test]
    fn without_room_lines_are_dropped_and_counted() {
        let dropped = dropped();
        let lines = log(true, &dropped).lines();
        let put = || lines.put(Instant::now(), Box::new(Record("x")));
        while lock(&lines.room).lines.0.len() < ROOM {
            put();
        }
        let full = lock(&lines.room).lines.0.len();
        (0..3).for_each(|_| put());
        assert_eq!((dropped.get(), lock(&lines.room).lines.0.len()), (3, full));
        assert_eq!(written(&lines.room, true).len(), full);
        put();
        assert_eq!(dropped.get(), 3, "room again");
    }
}
