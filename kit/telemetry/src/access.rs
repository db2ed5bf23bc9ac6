//! The access log. A line is made where its request ends, into room of that worker's own: carrying what a line is made of to
//! another thread cost more than making it, half of it in what one core has to fetch from the other. A thread of its own takes
//! the lines away and writes them. When nobody takes them from it the room is full, and lines are dropped and counted; a
//! request never waits for the log.

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use prometheus::IntCounter;
use time::OffsetDateTime;

/// Bytes of lines that wait, for each worker: some seconds of a busy core.
const ROOM: usize = 4 << 20;
/// What is kept of room for the next lines; more was a burst.
const KEPT: usize = 2 << 20;
/// How often lines are taken away. Waking the writer for each would cost the request a system call.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Status in the line of a request that nobody waited for any more, as nginx has it; nobody is sent it.
pub const ABANDONED_STATUS: u16 = 499;
/// Its reason.
pub const ABANDONED: &str = "abandoned";

/// One line to be.
pub trait AccessRecord {
    /// When.
    fn at(&self) -> OffsetDateTime;
    /// Gives every field, in the order of the line.
    fn fields(&self, field: &mut dyn FnMut(&'static str, Value<'_>));
}

/// A field's value.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// Text.
    Text(&'a str),
    /// Text of a fixed set, or of a method's characters: none of it needs an escape.
    Plain(&'a str),
    /// A number.
    Number(u64),
    /// Bytes in hexadecimal, as text.
    Hex(&'a [u8]),
}

/// The log of a process.
#[derive(Debug)]
pub struct AccessLog {
    rooms: Arc<Rooms>,
    alive: Arc<()>,
    json: bool,
    dropped: IntCounter,
}

/// Every worker's room.
type Rooms = Mutex<Vec<Arc<Mutex<Room>>>>;

/// Where one worker's lines wait.
#[derive(Debug, Default)]
struct Room {
    lines: String,
    clock: Clock,
}

/// One worker's end of the log.
#[derive(Debug)]
pub struct Lines {
    room: Arc<Mutex<Room>>,
    /// The log lasts as long as anybody can write to it.
    _alive: Arc<()>,
    json: bool,
    dropped: IntCounter,
}

impl AccessLog {
    /// Starts the writer, which ends when this and all [`Lines`] are gone and everything is written, and then calls `ended`.
    /// Lines that find no room are counted by `dropped`.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn start(json: bool, dropped: IntCounter, ended: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let rooms = Arc::new(Rooms::default());
        let alive = Arc::new(());
        let (seen, used) = (Arc::clone(&rooms), Arc::downgrade(&alive));
        std::thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            write_all(&seen, &used, &mut io::stderr());
            ended();
        })?;
        Ok(Self { rooms, alive, json, dropped })
    }

    /// Room for one more worker.
    #[must_use]
    pub fn lines(&self) -> Lines {
        let room = Arc::default();
        lock(&self.rooms).push(Arc::clone(&room));
        Lines { room, _alive: Arc::clone(&self.alive), json: self.json, dropped: self.dropped.clone() }
    }
}

impl Lines {
    /// Writes a line, or drops it when there is no room.
    pub fn put(&self, record: &impl AccessRecord) {
        let mut room = lock(&self.room);
        let Room { lines, clock } = &mut *room;
        if lines.len() >= ROOM {
            self.dropped.inc();
        } else if self.json {
            json_line(lines, clock, record);
        } else {
            text_line(lines, clock, record);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn write_all(rooms: &Rooms, used: &Weak<()>, to: &mut impl io::Write) {
    let (mut known, mut taken) = (Vec::new(), String::new());
    loop {
        // When nobody can write any more, what is there now is the end.
        let last = used.strong_count() == 0;
        known.clone_from(&lock(rooms));
        for room in &known {
            write_room(room, &mut taken, to);
        }
        if last {
            return;
        }
        std::thread::park_timeout(LOOK_EVERY);
    }
}

/// The worker gets the room of the last one's lines, and is held up by nothing else.
fn write_room(room: &Mutex<Room>, taken: &mut String, to: &mut impl io::Write) {
    std::mem::swap(&mut lock(room).lines, taken);
    if !taken.is_empty() {
        // A log that cannot be written must not stop anything, and there is nowhere to say so.
        drop(to.write_all(taken.as_bytes()));
        taken.clear();
        taken.shrink_to(KEPT);
    }
}

/// The same members as any other line of the log in JSON.
fn json_line(lines: &mut String, clock: &mut Clock, record: &impl AccessRecord) {
    lines.push_str("{\"timestamp\":\"");
    clock.write(lines, record.at());
    lines.push_str("\",\"level\":\"INFO\",\"message\":\"request\"");
    record.fields(&mut |name, value| {
        lines.push_str(",\"");
        lines.push_str(name);
        lines.push_str("\":");
        match value {
            Value::Text(text) => quoted(lines, text),
            Value::Plain(text) => lines.extend(["\"", text, "\""]),
            Value::Number(number) => lines.push_str(itoa::Buffer::new().format(number)),
            Value::Hex(bytes) => hexadecimal(lines, bytes),
        }
    });
    lines.push_str(",\"target\":\"access\"}\n");
}

fn text_line(lines: &mut String, clock: &mut Clock, record: &impl AccessRecord) {
    clock.write(lines, record.at());
    lines.push_str("  INFO access: request");
    record.fields(&mut |name, value| {
        lines.push(' ');
        lines.push_str(name);
        lines.push('=');
        match value {
            Value::Text(text) => quoted(lines, text),
            Value::Plain(text) => lines.extend(["\"", text, "\""]),
            Value::Number(number) => lines.push_str(itoa::Buffer::new().format(number)),
            Value::Hex(bytes) => hexadecimal(lines, bytes),
        }
    });
    lines.push('\n');
}

/// Writes moments; what the last one had in common with the next is not made again.
#[derive(Debug, Default)]
struct Clock {
    second: i64,
    text: String,
}

impl Clock {
    fn write(&mut self, lines: &mut String, at: OffsetDateTime) {
        let second = at.unix_timestamp();
        if self.text.is_empty() || self.second != second {
            self.second = second;
            self.text.clear();
            let (date, (hour, minute, second)) = (at.date(), at.time().as_hms());
            let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
            put(
                &mut self.text,
                format_args!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}."),
            );
        }
        lines.push_str(&self.text);
        // Seven digits with a one in front, which is left out: the zeros of the six stay.
        let mut digits = itoa::Buffer::new();
        lines.push_str(digits.format(1_000_000 + at.microsecond()).get(1..).unwrap_or_default());
        lines.push('Z');
    }
}

#[expect(
    clippy::expect_used,
    reason = "writing to a string fails only when a Display does, and these are numbers"
)]
fn put(lines: &mut String, text: std::fmt::Arguments<'_>) {
    lines.write_fmt(text).expect("a string takes all text");
}

/// Bytes between quotes.
fn hexadecimal(lines: &mut String, bytes: &[u8]) {
    const DIGITS: [char; 16] =
        ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |value: u8| DIGITS.get(usize::from(value & 15)).copied().unwrap_or('0');
    lines.push('"');
    for byte in bytes {
        lines.push(digit(byte >> 4));
        lines.push(digit(*byte));
    }
    lines.push('"');
}

/// Whether a byte may not stand in a line as it is, or may begin a character that may not.
const fn is_special(byte: u8) -> bool {
    !matches!(byte, b' '..=b'~') || matches!(byte, b'"' | b'\\')
}

/// Text between quotes: nothing in it can end the line or the value.
fn quoted(lines: &mut String, text: &str) {
    lines.push('"');
    // Of all bytes, without stopping at the first: that way sixteen are looked at together.
    if text.bytes().fold(false, |special, byte| special | is_special(byte)) {
        for character in text.chars() {
            match character {
                '"' | '\\' => lines.extend(['\\', character]),
                control if control.is_control() => put(lines, format_args!("\\u{:04x}", u32::from(control))),
                other => lines.push(other),
            }
        }
    } else {
        lines.push_str(text);
    }
    lines.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Record(&'static str);

    impl AccessRecord for Record {
        fn at(&self) -> OffsetDateTime {
            OffsetDateTime::from_unix_timestamp_nanos(1_700_000_000_001_002_000).expect("a moment")
        }

        fn fields(&self, field: &mut dyn FnMut(&'static str, Value<'_>)) {
            field("reason", Value::Text(self.0));
            field("status", Value::Number(200));
            field("subject", Value::Hex(&[0, 0xaf, 9]));
        }
    }

    fn log(dropped: &IntCounter) -> AccessLog {
        AccessLog { rooms: Arc::default(), alive: Arc::default(), json: true, dropped: dropped.clone() }
    }

    fn dropped() -> IntCounter {
        IntCounter::new("dropped", "Lines dropped.").expect("a counter")
    }

    #[test]
    fn a_line_is_what_it_says_and_nothing_in_it_breaks_out() {
        let log = log(&dropped());
        let (one, other) = (log.lines(), log.lines());
        one.put(&Record("plain"));
        other.put(&Record("a\"b\\c\nd"));
        let (rooms, used) = (Arc::clone(&log.rooms), Arc::downgrade(&log.alive));
        let mut written = Vec::new();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_all(&rooms, &used, &mut written));
            // Whoever still can write keeps the writer, and what is written last is written.
            drop((log, one));
            other.put(&Record("late"));
            drop(other);
            writer.join().expect("it ends");
        });
        let line = |reason: &str| {
            format!(
                r#"{{"timestamp":"2023-11-14T22:13:20.001002Z","level":"INFO","message":"request","reason":"{reason}","status":200,"subject":"00af09","target":"access"}}"#
            ) + "\n"
        };
        let text = String::from_utf8(written).expect("text");
        let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
        lines.sort_unstable();
        let mut expected = ["plain", r#"a\"b\\c\u000ad"#, "late"].map(line);
        expected.sort_unstable();
        assert_eq!(lines, expected);
    }

    #[test]
    fn without_room_lines_are_dropped_and_counted() {
        let dropped = dropped();
        let lines = log(&dropped).lines();
        while lock(&lines.room).lines.len() < ROOM {
            lines.put(&Record("x"));
        }
        let full = lock(&lines.room).lines.len();
        (0..3).for_each(|_| lines.put(&Record("x")));
        assert_eq!((dropped.get(), lock(&lines.room).lines.len()), (3, full));
        write_room(&lines.room, &mut String::new(), &mut io::sink());
        lines.put(&Record("x"));
        assert_eq!(dropped.get(), 3, "room again");
    }
}
