//! How fast a run works: a piece, then a pause. Its thread gives way to requests (`apart.rs`), but a core that it has it keeps
//! for milliseconds, whoever comes; by pausing it is never more than one piece in the way.

use std::thread;
use std::time::{Duration, Instant};

/// After each piece, which takes some 200 us.
const PAUSE: Duration = Duration::from_micros(500);
/// Where a run lasts longer, because the machine is full or there is much to read, it pauses no more: its targets have 2 s.
const PATIENCE: Duration = Duration::from_millis(600);

/// One run's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    begun: Instant,
}

impl Pace {
    pub(super) fn begin() -> Self {
        Self { begun: Instant::now() }
    }

    /// Lets others have the core. The targets that are being read wait with it, so their time-outs may come late by a pause.
    #[expect(
        clippy::disallowed_methods,
        reason = "the thread is the one run's alone: no request is served on it, and a runtime's timer has a millisecond at least"
    )]
    pub(super) fn rest(self) {
        if self.begun.elapsed() < PATIENCE {
            thread::sleep(PAUSE);
        }
    }
}
