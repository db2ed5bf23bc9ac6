//! Throttles a run: after each piece of work it yields the core. Its thread has low priority (`background.rs`), but
//! would still keep a core for milliseconds once it has one; so other threads wait for at most one piece.

use std::thread;
use std::time::{Duration, Instant};

/// After this time, on a busy machine or with much to read, a run no longer yields and relies on its thread's priority
/// alone: its targets have 2 s.
const PATIENCE: Duration = Duration::from_millis(600);

/// The throttle of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    begun: Instant,
}

impl Pace {
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now() }
    }

    /// Yields the core. Sleeping would too, but falling asleep and waking cost as much as a piece.
    pub(crate) fn give_way(self) {
        if self.begun.elapsed() < PATIENCE {
            thread::yield_now();
        }
    }
}
