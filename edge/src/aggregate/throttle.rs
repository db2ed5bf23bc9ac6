//! How a run works: a piece, then whoever waits for its core. Its thread gives way to requests (`apart.rs`), but a core that
//! it has it would keep for milliseconds, whoever comes; so nobody waits for more than one piece of it.

use std::thread;
use std::time::{Duration, Instant};

/// Where a run lasts longer, because the machine is full or there is much to read, it gives way no more than its thread's
/// rank does: its targets have 2 s.
const PATIENCE: Duration = Duration::from_millis(600);

/// One run's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    begun: Instant,
}

impl Pace {
    pub(crate) fn begin() -> Self {
        Self { begun: Instant::now() }
    }

    /// Lets who waits have the core. A pause would too, but to fall asleep and to be woken costs as much as a piece.
    pub(crate) fn give_way(self) {
        if self.begun.elapsed() < PATIENCE {
            thread::yield_now();
        }
    }
}
