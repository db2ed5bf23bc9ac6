//! Writes log lines in a thread of its own (`tracing-appender`), so that a reader of the log which stops reading stops nothing else.
//! Lines wait in a queue; when it is full they are dropped and counted.

use std::io::{self, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use prometheus::IntCounter;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder};
use tracing_subscriber::fmt::MakeWriter;

/// Lines that wait for the writer. A burst of a second at the level `debug` has fewer.
const MAX_WAITING: usize = 16 << 10;
/// How long the end of the process waits for the last lines, whose reader may have stopped.
const LAST_LINES: Duration = Duration::from_secs(1);
/// How often it looks.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// The log of this process, once it is set up.
static PROCESS: OnceLock<Log> = OnceLock::new();

/// A log that is written beside its callers.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    queue: NonBlocking,
    dropped: ErrorCounter,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Lines that were put into the queue, or dropped.
    put: AtomicUsize,
    /// Lines that left the queue.
    written: AtomicUsize,
}

/// What ends with the process: the last lines are written when it is dropped, within a limit.
#[derive(Debug)]
#[must_use = "the last lines are written when it is dropped"]
pub(crate) struct LastLines(());

impl Drop for LastLines {
    fn drop(&mut self) {
        if let Some(log) = PROCESS.get() {
            log.flush(LAST_LINES);
        }
    }
}

/// The log of this process, on standard error.
pub(crate) fn of_process() -> Log {
    PROCESS.get_or_init(|| Log::to(io::stderr(), MAX_WAITING)).clone()
}

/// The log of this process was or will be set up.
pub(crate) const fn last_lines() -> LastLines {
    LastLines(())
}

/// Puts a line among those of the process's log, as it is; on standard error where no log is set up.
pub fn put_line(text: &str) {
    let line = format!("{text}\n");
    match PROCESS.get() {
        // Neither fails: what finds no room is dropped and counted, and a closed output cannot be told about.
        Some(log) => drop(log.clone().write_all(line.as_bytes())),
        None => drop(io::stderr().write_all(line.as_bytes())),
    }
}

impl Log {
    fn to(writer: impl Write + Send + 'static, max_waiting: usize) -> Self {
        let counts = Arc::new(Counts::default());
        let counted = Counted { writer, counts: Arc::clone(&counts) };
        let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(max_waiting);
        let (queue, worker) = builder.thread_name("log").finish(counted);
        // Dropping it would wait no longer than 0.1 s for room in the queue, and say so on standard output, whose reader may be
        // the one that stopped. The thread ends with the process; `flush` waits for its lines.
        std::mem::forget(worker);
        Self { dropped: queue.error_counter(), queue, counts }
    }

    /// Waits until all lines are written; `false` when it takes too long.
    fn flush(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        let put = self.counts.put.load(Ordering::Acquire);
        while self.counts.written.load(Ordering::Acquire) + self.dropped.dropped_lines() < put {
            if Instant::now() >= end {
                return false;
            }
            thread::park_timeout(LOOK_EVERY);
        }
        true
    }
}

/// Where the log's lines go, each with one call.
impl Write for Log {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.counts.put.fetch_add(1, Ordering::AcqRel);
        self.queue.write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The writer's thread's own.
struct Counted<W> {
    writer: W,
    counts: Arc<Counts>,
}

impl<W: Write> Write for Counted<W> {
    /// The whole line, for which the thread calls once.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // A log that cannot be written must not stop anything, and there is nowhere to say so.
        drop(self.writer.write_all(line));
        self.counts.written.fetch_add(1, Ordering::AcqRel);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// How many lines of the process's log were dropped, whatever service asks.
#[derive(Debug)]
pub(crate) struct Dropped(IntCounter);

impl Dropped {
    pub(crate) fn new() -> prometheus::Result<Self> {
        counter().map(Self)
    }
}

fn counter() -> prometheus::Result<IntCounter> {
    IntCounter::new(
        "platform_log_dropped_total",
        "Log lines of the process that were dropped because their reader did not keep up.",
    )
}

impl Collector for Dropped {
    fn desc(&self) -> Vec<&Desc> {
        self.0.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let dropped = PROCESS.get().map_or(0, |log| log.dropped.dropped_lines());
        // Of the same name and help as the one that was registered, which was made.
        let Ok(counter) = counter() else { return Vec::new() };
        counter.inc_by(u64::try_from(dropped).unwrap_or(u64::MAX));
        counter.collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Takes each line when it is told to.
    struct Reader {
        go_on: Receiver<()>,
        read: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Reader {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.go_on.recv().map_err(io::Error::other)?;
            self.read.lock().expect("no panic").extend_from_slice(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log(max_waiting: usize) -> (Log, Sender<()>, Arc<Mutex<Vec<u8>>>) {
        let (sender, go_on) = channel();
        let read = Arc::new(Mutex::new(Vec::new()));
        let reader = Reader { go_on, read: Arc::clone(&read) };
        (Log::to(reader, max_waiting), sender, read)
    }

    fn lines(count: usize) -> Vec<u8> {
        (0..count).flat_map(|number| format!("line {number}\n").into_bytes()).collect()
    }

    #[test]
    fn all_lines_are_written_at_the_end_the_last_one_included() {
        const LINES: usize = 5_000;
        let (log, go_on, read) = log(LINES);
        for line in lines(LINES).split_inclusive(|byte| *byte == b'\n') {
            log.make_writer().write_all(line).expect("it is queued");
        }
        (0..LINES).for_each(|_| go_on.send(()).expect("a reader"));
        assert!(log.flush(Duration::from_secs(10)));
        assert!(*read.lock().expect("no panic") == lines(LINES));
        assert_eq!(log.dropped.dropped_lines(), 0);
    }

    #[test]
    fn a_reader_that_stops_holds_nobody_up_and_what_it_misses_is_counted() {
        const LINES: usize = 100;
        let (log, go_on, read) = log(10);
        for line in lines(LINES).split_inclusive(|byte| *byte == b'\n') {
            log.make_writer().write_all(line).expect("it is queued or dropped");
        }
        let limit = Duration::from_millis(20);
        let began = Instant::now();
        assert!(!log.flush(limit), "it has stopped");
        assert!(began.elapsed() >= limit);
        // One may have left the queue.
        let dropped = log.dropped.dropped_lines();
        assert!(dropped == LINES - 10 || dropped == LINES - 11, "{dropped}");
        (0..LINES).for_each(|_| go_on.send(()).expect("a reader"));
        assert!(log.flush(Duration::from_secs(10)), "it reads on");
        let read = read.lock().expect("no panic");
        assert_eq!(read.split(|byte| *byte == b'\n').count() - 1, LINES - dropped);
    }
}
