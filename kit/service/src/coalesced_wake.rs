//! Polls a connection again at once when it wakes itself while it is being polled. hyper wakes a connection's task when
//! the handler takes the request body, while that very task is running. The runtime would put the task at the end of
//! its queue and wake another worker to fetch it, for every request with a body, only to find nothing to do. What that
//! costs: `benches/coalesced_wake.rs`.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Most polls in a row: one more than a self-wake requires. A future that wakes itself every time must yield to
/// others.
const POLLS: usize = 2;

/// A connection's future.
pub(crate) struct CoalescedWake<F> {
    connection: Pin<Box<F>>,
    wakes: Arc<Wakes>,
    waker: Waker,
}

/// Wake-ups of the future.
struct Wakes {
    task: Mutex<Waker>,
    is_polled: AtomicBool,
    is_woken: AtomicBool,
}

impl<F: Future> CoalescedWake<F> {
    pub(crate) fn of(connection: F) -> Self {
        let task = Mutex::new(Waker::noop().clone());
        let wakes =
            Arc::new(Wakes { task, is_polled: AtomicBool::default(), is_woken: AtomicBool::default() });
        Self { connection: Box::pin(connection), waker: Waker::from(Arc::clone(&wakes)), wakes }
    }

    fn poll_once(&mut self) -> Poll<F::Output> {
        // A swap, so that the poll sees whatever an earlier wake-up announced.
        self.wakes.is_woken.swap(false, Ordering::SeqCst);
        self.wakes.is_polled.store(true, Ordering::SeqCst);
        let polled = self.connection.as_mut().poll(&mut Context::from_waker(&self.waker));
        self.wakes.is_polled.store(false, Ordering::SeqCst);
        polled
    }
}

impl<F: Future> Future for CoalescedWake<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.wakes.belong_to(context.waker());
        for _ in 0..POLLS {
            let polled = self.poll_once();
            if polled.is_ready() || !self.wakes.is_woken.load(Ordering::SeqCst) {
                return polled;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Wakes {
    fn belong_to(&self, task: &Waker) {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).clone_from(task);
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// A wake-up during a poll is handled when the poll ends. The waker announces itself before it checks for a running
    /// poll, and the poll checks for wake-ups after it announces its end, so one of the two always sees the other.
    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        if !self.is_polled.load(Ordering::SeqCst) {
            self.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[derive(Default)]
    struct Task(AtomicUsize);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Polls a future that wakes itself in its first `times` polls, `rounds` times; returns how often its task was woken
    /// after each.
    fn woken(times: usize, rounds: usize) -> Vec<usize> {
        let (task, mut polls) = (Arc::new(Task::default()), 0);
        let waker = Waker::from(Arc::clone(&task));
        let mut coalesced = CoalescedWake::of(poll_fn(|context| {
            polls += 1;
            if polls <= times {
                context.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        }));
        let mut poll = || {
            assert!(Pin::new(&mut coalesced).poll(&mut Context::from_waker(&waker)).is_pending());
            task.0.load(Ordering::SeqCst)
        };
        (0..rounds).map(|_| poll()).collect()
    }

    #[test]
    fn who_wakes_itself_once_is_polled_again_and_its_task_is_not_woken() {
        assert_eq!(woken(1, 2), [0, 0]);
    }

    #[test]
    fn who_wakes_itself_every_time_lets_others_work() {
        assert_eq!(woken(usize::MAX, 3), [1, 2, 3]);
    }

    #[test]
    fn who_is_woken_between_two_polls_is_woken() {
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut inner = None;
        let mut coalesced = CoalescedWake::of(poll_fn(|context| {
            inner = Some(context.waker().clone());
            Poll::<()>::Pending
        }));
        assert!(Pin::new(&mut coalesced).poll(&mut Context::from_waker(&waker)).is_pending());
        drop(coalesced);
        inner.expect("it was polled").wake();
        assert_eq!(task.0.load(Ordering::SeqCst), 1);
    }
}
