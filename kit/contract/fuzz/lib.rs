//! Shared by the targets: the time limit of an input.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Longest run of one input, in CPU time: wall-clock time would include other load on the machine.
const LONGEST_MS: i64 = 1_000;

/// Runs the closure, and panics when it took too long.
pub fn timed(run: impl FnOnce()) {
    let begun = clock_gettime(ClockId::ThreadCPUTime);
    run();
    let ended = clock_gettime(ClockId::ThreadCPUTime);
    let ms = |at: Timespec| at.tv_sec * 1_000 + at.tv_nsec / 1_000_000;
    assert!(ms(ended) - ms(begun) <= LONGEST_MS, "{} ms", ms(ended) - ms(begun));
}
