//! [`Quantum`]: how much of one body is worked on before the worker's other tasks run, and its sockets and timers are looked
//! at. A body in many small frames uses it up as fast as a long one: each frame counts for some bytes more than it has.

use std::pin::pin;
use std::task::{Context, Poll};

use tokio::task::yield_now;

/// Bytes of a body that pass before others have their turn.
const QUANTUM: usize = 256 << 10;
/// Bytes that each frame counts for besides its own.
const FRAME: usize = 512;

/// What is left of a task's quantum.
#[derive(Debug)]
pub(crate) struct Quantum(usize);

impl Quantum {
    pub(crate) const fn new() -> Self {
        Self(QUANTUM)
    }

    /// Uses some of it up, for a frame with so many bytes.
    pub(crate) const fn spend(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(bytes.saturating_add(FRAME));
    }

    /// Pending once when it is used up; the next call begins another.
    pub(crate) fn poll_left(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.0 > 0 {
            return Poll::Ready(());
        }
        *self = Self::new();
        give_way(context);
        Poll::Pending
    }
}

/// Wakes the task again once the others have run and the runtime has looked at its sockets and timers. A task that wakes itself
/// runs up to 61 times before that.
pub(crate) fn give_way(context: &mut Context<'_>) {
    // The first poll of it always waits, and leaves the wake-up to the runtime.
    let _pending = pin!(yield_now()).poll(context);
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Frames of so many bytes that are passed before others have their turn.
    fn frames_of(bytes: usize) -> usize {
        let context = &mut Context::from_waker(Waker::noop());
        let mut quantum = Quantum::new();
        let passed = (0..).take_while(|_| {
            let is_left = quantum.poll_left(context).is_ready();
            quantum.spend(bytes);
            is_left
        });
        passed.count()
    }

    #[test]
    fn many_small_frames_use_it_up_as_a_few_long_ones_do() {
        assert_eq!(frames_of(1), 512);
        assert_eq!(frames_of(16 << 10), 16);
        assert_eq!(frames_of(usize::MAX), 1, "one of any length is passed whole");
    }

    #[test]
    fn after_a_pause_it_is_whole_again() {
        let context = &mut Context::from_waker(Waker::noop());
        let mut quantum = Quantum::new();
        quantum.spend(QUANTUM);
        assert!(quantum.poll_left(context).is_pending());
        assert!(quantum.poll_left(context).is_ready());
    }
}
