//! A connection that wakes itself while it is polled is polled again at once. hyper wakes the task of a connection when the
//! handler takes the request's body, which it does while that very task runs. The runtime would put the task at the end of
//! its queue and wake another worker to fetch it, for every request with a body and only to find that nothing is to be done.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// How often it is polled in one turn: once more than it was woken for. Who wakes itself every time has to wait for others.
const POLLS: usize = 2;

/// The future of a connection.
pub(crate) struct Turn<F> {
    connection: Pin<Box<F>>,
    calls: Arc<Calls>,
    waker: Waker,
}

/// The calls to wake up.
struct Calls {
    task: Mutex<Waker>,
    polled: AtomicBool,
    called: AtomicBool,
}

impl<F: Future> Turn<F> {
    pub(crate) fn of(connection: F) -> Self {
        let task = Mutex::new(Waker::noop().clone());
        let calls = Arc::new(Calls { task, polled: AtomicBool::default(), called: AtomicBool::default() });
        Self { connection: Box::pin(connection), waker: Waker::from(Arc::clone(&calls)), calls }
    }

    fn poll_once(&mut self) -> Poll<F::Output> {
        // Swapped: whatever a call before this one tells of is seen by the poll.
        self.calls.called.swap(false, Ordering::SeqCst);
        self.calls.polled.store(true, Ordering::SeqCst);
        let polled = self.connection.as_mut().poll(&mut Context::from_waker(&self.waker));
        self.calls.polled.store(false, Ordering::SeqCst);
        polled
    }
}

impl<F: Future> Future for Turn<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.calls.belong_to(context.waker());
        for _ in 0..POLLS {
            let polled = self.poll_once();
            if polled.is_ready() || !self.calls.called.load(Ordering::SeqCst) {
                return polled;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

impl Calls {
    fn belong_to(&self, task: &Waker) {
        self.task.lock().unwrap_or_else(PoisonError::into_inner).clone_from(task);
    }
}

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    /// Who calls while it is polled is heard when the poll is over: it says so before it looks, and the poll looks after it
    /// said that it is over, so that one of the two sees the other.
    fn wake_by_ref(self: &Arc<Self>) {
        self.called.store(true, Ordering::SeqCst);
        if !self.polled.load(Ordering::SeqCst) {
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

    /// Polls a future in turns that wakes itself in its first so many polls; says how often its task was woken after each.
    fn woken(times: usize, turns: usize) -> Vec<usize> {
        let (task, mut polls) = (Arc::new(Task::default()), 0);
        let waker = Waker::from(Arc::clone(&task));
        let mut turn = Turn::of(poll_fn(|context| {
            polls += 1;
            if polls <= times {
                context.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        }));
        let mut poll = || {
            assert!(Pin::new(&mut turn).poll(&mut Context::from_waker(&waker)).is_pending());
            task.0.load(Ordering::SeqCst)
        };
        (0..turns).map(|_| poll()).collect()
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
    fn who_is_called_between_two_turns_is_woken() {
        let task = Arc::new(Task::default());
        let waker = Waker::from(Arc::clone(&task));
        let mut inner = None;
        let mut turn = Turn::of(poll_fn(|context| {
            inner = Some(context.waker().clone());
            Poll::<()>::Pending
        }));
        assert!(Pin::new(&mut turn).poll(&mut Context::from_waker(&waker)).is_pending());
        drop(turn);
        inner.expect("it was polled").wake();
        assert_eq!(task.0.load(Ordering::SeqCst), 1);
    }
}
