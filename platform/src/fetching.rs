//! Progress of the PostgreSQL download: one updated line on a terminal, a line every few seconds in a log.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use postgres::Progress;

use crate::console;

/// Interval of progress lines in a log.
const LOG_INTERVAL: Duration = Duration::from_secs(5);

/// Time of the last progress line in a log; a terminal shows every update.
#[derive(Debug, Default)]
pub(crate) struct Fetching(Mutex<Option<Instant>>);

impl Fetching {
    /// Shows one step.
    pub(crate) fn tell(&self, progress: Progress) {
        match progress {
            Progress::Waiting => {
                console::say("platform: waiting for another process that is fetching PostgreSQL");
            }
            Progress::Begun { address, have: 0 } => {
                console::say(&format!("platform: no PostgreSQL on this machine; fetching it from {address}"));
            }
            Progress::Begun { address, have } => {
                console::say(&format!("platform: going on after {} with {address}", mebibytes(have)));
            }
            Progress::Arrived { have, all, rate } => self.arrived(have, all, rate),
            Progress::Again { why } => {
                end_line();
                console::say(&format!("platform: the download was interrupted ({why}); retrying"));
            }
            Progress::Unpacking => console::say("platform: the checksum matches; unpacking"),
            Progress::Done { folder } => {
                console::say(&format!("platform: PostgreSQL is kept in {} from now on", folder.display()));
            }
        }
    }

    fn arrived(&self, have: u64, all: u64, rate: u64) {
        let line = format!("{} of {}, {}/s", mebibytes(have), mebibytes(all), mebibytes(rate));
        if std::io::stderr().is_terminal() {
            console::rewrite(&format!("platform: {line}"), have >= all);
        } else if have >= all || self.is_due() {
            console::say(&format!("platform: fetched {line}"));
        }
    }

    fn is_due(&self) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = told.is_none_or(|told| told.elapsed() >= LOG_INTERVAL);
        if due {
            *told = Some(Instant::now());
        }
        due
    }
}

/// Ends the line that an interrupted download left open on a terminal.
fn end_line() {
    if std::io::stderr().is_terminal() {
        console::say("");
    }
}

/// Formats a size with one decimal.
fn mebibytes(bytes: u64) -> String {
    let tenths = bytes.saturating_mul(10) >> 20;
    format!("{}.{} MiB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_with_one_digit() {
        assert_eq!(mebibytes(15_119_738), "14.4 MiB");
        assert_eq!(mebibytes(0), "0.0 MiB");
        assert_eq!(mebibytes(100 << 10), "0.0 MiB");
        assert_eq!(mebibytes(110 << 10), "0.1 MiB");
    }
}
