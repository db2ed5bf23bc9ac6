//! The access log, formatted and written on a thread of its own: a request only puts its record into a bounded queue. When
//! the queue is full, because nobody takes the lines away, records are dropped and counted; a request never waits.

use std::fmt::Write as _;
use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use prometheus::IntCounter;
use time::OffsetDateTime;

/// Some seconds of a busy core.
const QUEUE: usize = 16_384;
/// Lines written at once; a reader of the log sees them in whole batches.
const BATCH_BYTES: usize = 64 << 10;
/// How often the queue is looked at. Waking the writer for each record would cost the request a system call.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Status in the line of a request that nobody waited for any more, as nginx has it; nobody is sent it.
pub const ABANDONED_STATUS: u16 = 499;
/// Its reason.
pub const ABANDONED: &str = "abandoned";

/// One line to be.
pub trait AccessRecord: Send + 'static {
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
    /// A number.
    Number(u64),
    /// Bytes in hexadecimal, as text.
    Hex(&'a [u8]),
}

/// Where records go. Cheap to clone.
#[derive(Debug)]
pub struct AccessLog<R> {
    queue: SyncSender<R>,
    dropped: IntCounter,
}

impl<R> Clone for AccessLog<R> {
    fn clone(&self) -> Self {
        Self { queue: self.queue.clone(), dropped: self.dropped.clone() }
    }
}

impl<R: AccessRecord> AccessLog<R> {
    /// Starts the writer, which ends when the last clone is gone and everything is written, and then calls `ended`.
    /// Records that find the queue full are counted by `dropped`.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn start(json: bool, dropped: IntCounter, ended: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (queue, records) = sync_channel(QUEUE);
        std::thread::Builder::new().name("access-log".to_owned()).spawn(move || {
            write_all(&records, json, &mut io::stderr());
            ended();
        })?;
        Ok(Self { queue, dropped })
    }

    /// Takes a record, or drops it when the queue is full.
    pub fn put(&self, record: R) {
        if self.queue.try_send(record).is_err() {
            self.dropped.inc();
        }
    }
}

fn write_all<R: AccessRecord>(records: &Receiver<R>, json: bool, to: &mut impl io::Write) {
    let line = if json { json_line } else { text_line };
    let (mut lines, mut clock) = (String::new(), Clock::default());
    loop {
        let next = records.try_recv();
        if let Ok(record) = &next {
            line(&mut lines, &mut clock, record);
        }
        let waits = next.is_err();
        if !lines.is_empty() && (waits || lines.len() >= BATCH_BYTES) {
            // A log that cannot be written must not stop anything, and there is nowhere to say so.
            drop(to.write_all(lines.as_bytes()));
            lines.clear();
        }
        match next {
            Err(TryRecvError::Empty) => std::thread::park_timeout(LOOK_EVERY),
            Err(TryRecvError::Disconnected) => return,
            Ok(_) => {}
        }
    }
}

/// The same members as any other line of the log in JSON.
fn json_line<R: AccessRecord>(lines: &mut String, clock: &mut Clock, record: &R) {
    lines.push_str("{\"timestamp\":\"");
    clock.write(lines, record.at());
    lines.push_str("\",\"level\":\"INFO\",\"message\":\"request\"");
    record.fields(&mut |name, value| {
        lines.push_str(",\"");
        lines.push_str(name);
        lines.push_str("\":");
        match value {
            Value::Text(text) => quoted(lines, text),
            Value::Number(number) => lines.push_str(itoa::Buffer::new().format(number)),
            Value::Hex(bytes) => hexadecimal(lines, bytes),
        }
    });
    lines.push_str(",\"target\":\"access\"}\n");
}

fn text_line<R: AccessRecord>(lines: &mut String, clock: &mut Clock, record: &R) {
    clock.write(lines, record.at());
    lines.push_str("  INFO access: request");
    record.fields(&mut |name, value| {
        lines.push(' ');
        lines.push_str(name);
        lines.push('=');
        match value {
            Value::Text(text) => quoted(lines, text),
            Value::Number(number) => lines.push_str(itoa::Buffer::new().format(number)),
            Value::Hex(bytes) => hexadecimal(lines, bytes),
        }
    });
    lines.push('\n');
}

/// Writes moments; what the last one had in common with the next is not made again.
#[derive(Default)]
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
    if text.bytes().any(is_special) {
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

    #[test]
    fn a_line_is_what_it_says_and_nothing_in_it_breaks_out() {
        let (queue, records) = sync_channel(2);
        queue.send(Record("plain")).expect("sent");
        queue.send(Record("a\"b\\c\nd")).expect("sent");
        drop(queue);
        let mut written = Vec::new();
        write_all(&records, true, &mut written);
        let expected = concat!(
            r#"{"timestamp":"2023-11-14T22:13:20.001002Z","level":"INFO","message":"request","reason":"plain","status":200,"subject":"00af09","target":"access"}"#,
            "\n",
            r#"{"timestamp":"2023-11-14T22:13:20.001002Z","level":"INFO","message":"request","reason":"a\"b\\c\u000ad","status":200,"subject":"00af09","target":"access"}"#,
            "\n",
        );
        assert_eq!(String::from_utf8(written).expect("text"), expected);
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let (queue, _records) = sync_channel(1);
        let dropped = IntCounter::new("dropped", "Records dropped.").expect("a counter");
        let log = AccessLog { queue, dropped: dropped.clone() };
        (0..3).for_each(|_| log.put(Record("x")));
        assert_eq!(dropped.get(), 2);
    }
}
