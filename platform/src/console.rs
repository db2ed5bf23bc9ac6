//! What people and scripts read: results on standard output, progress and problems on standard error. A closed output
//! cannot be told about, so it is passed over.

use std::io::Write;

/// A line of progress or a problem, on standard error.
pub(crate) fn say(text: &str) {
    drop(writeln!(std::io::stderr(), "{text}"));
}

/// A line of progress of what goes on serving, on standard error among the lines of its log: a reader that has stopped holds
/// it up no more than these.
pub(crate) fn progress(text: &str) {
    telemetry::put_line(text);
}

/// A line of the result, on standard output, at once.
pub(crate) fn result(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "{text}").and_then(|()| out.flush()));
}

/// A whole document, on standard output.
pub(crate) fn bytes(document: &[u8]) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(document).and_then(|()| out.flush()));
}

/// Writes over the present line of a terminal; `last` ends it.
pub(crate) fn rewrite(text: &str, last: bool) {
    let mut err = std::io::stderr().lock();
    let end = if last { "\n" } else { "" };
    drop(write!(err, "\r\u{1b}[K{text}{end}").and_then(|()| err.flush()));
}
