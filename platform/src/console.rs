//! Console output: results on standard output, progress and problems on standard error. Write errors are ignored,
//! because there is no other way to report them.

use std::io::Write;

/// Prints a line of progress or a problem on standard error.
pub(crate) fn say(text: &str) {
    drop(writeln!(std::io::stderr(), "{text}"));
}

/// Queues a line of progress of a serving process among its log lines on standard error, so that a stalled reader does not
/// block the process.
pub(crate) fn progress(text: &str) {
    telemetry::put_line(text);
}

/// Prints a line of the result on standard output and flushes it.
pub(crate) fn result(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "{text}").and_then(|()| out.flush()));
}

/// Prints a whole document on standard output.
pub(crate) fn bytes(document: &[u8]) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(document).and_then(|()| out.flush()));
}

/// Overwrites the current line of a terminal; `last` ends the line.
pub(crate) fn rewrite(text: &str, last: bool) {
    let mut err = std::io::stderr().lock();
    let end = if last { "\n" } else { "" };
    drop(write!(err, "\r\u{1b}[K{text}{end}").and_then(|()| err.flush()));
}
