//! What becomes of a request that its client gives up. Its work is dropped, and its transaction with it, unless it holds a turn
//! for costly reads: then it runs to its end. A statement that is given up half-way occupies its connection until the database
//! has finished it, so the turn must last as long. Otherwise a client that gives up its reads and begins further ones would
//! occupy every connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio::runtime::Handle;

tokio::task_local! {
    /// The number of turns that the current work holds.
    static TURNS: Arc<AtomicUsize>;
}

/// A turn of the current work, until it is dropped.
#[derive(Debug)]
pub(crate) struct Holding(Option<Arc<AtomicUsize>>);

impl Holding {
    /// Counts one more turn; does nothing outside a request.
    pub(crate) fn begin() -> Self {
        let turns = TURNS.try_with(Arc::clone).ok();
        if let Some(turns) = &turns {
            turns.fetch_add(1, Ordering::Relaxed);
        }
        Self(turns)
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        if let Some(turns) = &self.0 {
            turns.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// The work on one request; see [`around`].
#[must_use = "futures do nothing unless polled"]
pub(crate) struct Work<F: Future<Output: Send> + Send + 'static> {
    rest: Option<Pin<Box<F>>>,
    turns: Arc<AtomicUsize>,
}

/// Makes the work on one request run to its end when it is dropped while it holds a turn.
pub(crate) fn around<T, F>(work: F) -> Work<impl Future<Output = T> + Send + 'static>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let turns = Arc::new(AtomicUsize::new(0));
    Work { rest: Some(Box::pin(TURNS.scope(Arc::clone(&turns), work))), turns }
}

impl<F: Future<Output: Send> + Send + 'static> Future for Work<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Some(rest) = &mut self.rest else { return Poll::Pending };
        let polled = rest.as_mut().poll(context);
        if polled.is_ready() {
            self.rest = None;
        }
        polled
    }
}

impl<F: Future<Output: Send> + Send + 'static> Drop for Work<F> {
    fn drop(&mut self) {
        let holds_turn = self.turns.load(Ordering::Relaxed) > 0;
        if let Some(rest) = self.rest.take().filter(|_| holds_turn)
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    /// Work that takes a turn if asked to, then waits for a signal, then says that it is done.
    fn work(
        takes_turn: bool,
    ) -> (oneshot::Sender<()>, oneshot::Receiver<()>, impl Future<Output = ()> + Send) {
        let ((signal, heard), (done, seen)) = (oneshot::channel(), oneshot::channel());
        let work = async move {
            let _turn = takes_turn.then(Holding::begin);
            if heard.await.is_ok() {
                done.send(()).unwrap_or_default();
            }
        };
        (signal, seen, around(work))
    }

    async fn given_up(work: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = work => panic!("it waits for the signal"),
            () = std::future::ready(()) => {}
        }
    }

    #[tokio::test]
    async fn work_with_a_turn_runs_to_its_end_and_other_work_is_dropped() {
        for takes_turn in [true, false] {
            let (signal, seen, work) = work(takes_turn);
            given_up(work).await;
            assert_eq!(signal.send(()).is_ok(), takes_turn, "only work with a turn still runs");
            assert_eq!(seen.await.is_ok(), takes_turn);
        }
    }

    #[tokio::test]
    async fn a_turn_that_has_ended_keeps_nothing_running() {
        let (signal, heard) = oneshot::channel::<()>();
        let work = around(async move {
            drop(Holding::begin());
            heard.await.unwrap_or_default();
        });
        given_up(work).await;
        assert!(signal.send(()).is_err());
    }
}
