//! What people and scripts read: results on standard output, progress and problems on standard error. A closed output
//! cannot be told about, so it is passed over.

use std::io::Write;

/// A line of progress or a problem, on standard error.
pub(crate) fn say(text: &str) {
    drop(writeln!(std::io::stderr(), "{text}"));
}

/// A line of the result, on standard output, at once.
pub(crate) fn result(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(writeln!(out, "{text}").and_then(|()| out.flush()));
}
