//! [`Quantum`]: how much of one body is processed before the worker's other tasks run and its sockets and timers are
//! polled. Each frame costs a fixed amount besides its bytes, so many small frames use it up as fast as a long body.

use std::pin::pin;
use std::task::{Context, Poll};

use tokio::task::yield_now;

/// Bytes of a body processed before the task yields.
const QUANTUM: usize = 256 << 10;
/// The fixed cost of a frame, in bytes.
const FRAME: usize = 512;

/// The rest of a task's quantum.
#[derive(Debug)]
pub(crate) struct Quantum(usize);

impl Quantum {
    pub(crate) const fn new() -> Self {
        Self(QUANTUM)
    }

    /// Spends the cost of a frame of `bytes`.
    pub(crate) const fn spend(&mut self, bytes: usize) {
        self.0 = self.0.saturating_sub(bytes.saturating_add(FRAME));
    }

    /// Pending once when the quantum is used up; the next call starts another.
    pub(crate) fn poll_left(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.0 > 0 {
            return Poll::Ready(());
        }
        *self = Self::new();
        give_way(context);
        Poll::Pending
    }
}

/// Yields: wakes the task after the others have run and the runtime has polled its sockets and timers. A task that
/// wakes itself would run up to 61 times before that.
pub(crate) fn give_way(context: &mut Context<'_>) {
    // The first poll always returns `Pending` and defers the wake-up to the runtime.
    let _pending = pin!(yield_now()).poll(context);
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Frames of this size that pass before the task yields.
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
